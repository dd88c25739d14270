"""Epochs that make their gradient steps in other functions, each on a whole rollout."""

import ast
import re
from collections.abc import Iterator

from rlrepro.doctor.ast_index import FUNCTIONS, Module, calls_in, names_in, walk, words_of
from rlrepro.doctor.likely_rollouts import NOT_ROLLOUT, SEVERAL, Place, is_several, measured, passed
from rlrepro.doctor.minibatches import learns, method_of_self, takes_parts
from rlrepro.doctor.networks import is_network, is_without_graph
from rlrepro.doctor.project import Project

EPOCHS = re.compile(r"epoch|iter|updates?\b|updates?_(per|steps|times?|num)|num_updates|reuse|optim_", re.IGNORECASE)


def in_each_step(module: Module, project: Project) -> Iterator[Place]:
    """Calls of networks in functions that receive a whole rollout in each epoch, as in loss = compute_loss(data), and
    calls that receive it before or after the epochs."""
    for loop in module.nodes[ast.For]:
        function = module.function(loop)
        has_inner_loop = any(isinstance(node, ast.For | ast.While) for node in walk(loop) if node is not loop)
        if has_inner_loop or not EPOCHS.search(ast.unparse(loop.iter)) or not learns(module, project, loop, depth=1):
            continue
        rollouts = _rollout_variables(function, loop) if ".sample(" not in ast.unparse(function) else set()
        places = list(_in_callees(module, project, loop, rollouts)) if rollouts else []
        yield from places
        for call, text in measured(module, function, rollouts) if places else ():
            if is_network(module, call.func) and not module.loops(call):
                yield call, text


def _rollout_variables(function, loop) -> set[str]:
    """The variables that are named like a rollout, or hold an entry of one, and are not assigned in the loop."""
    stores = (node for node in walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    entries = {
        ast.unparse(node.targets[0])
        for node in walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript) and is_several(node.value.value)
    }
    rollouts = {name for name in names_in(function) if words_of(name) & SEVERAL and not words_of(name) & NOT_ROLLOUT}
    return (rollouts | entries) - {node.id for node in stores}


def _in_callees(module: Module, project: Project, loop, rollouts: set[str]) -> Iterator[Place]:
    """The first network call with gradients in each function of the module that the loop calls with one of these
    variables, unless the function goes over them part by part."""
    for call in calls_in(loop):
        target = method_of_self(module, project, call) or project.definition(module, call.func)
        if target is None or not isinstance(target.node, FUNCTIONS) or target.module is not module:
            continue
        if takes_parts(target.node):
            continue
        received = {name for name, arg in passed(target, call) if ast.unparse(arg) in rollouts}
        for node in walk(target.node):  # obs, act = data["obs"], data["act"]
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and names_in(node.value) & received:
                received |= set().union(*map(names_in, node.targets))
        places = measured(module, target.node, received) if received else ()
        yield from [place for place in places if not is_without_graph(module, place[0])][:1]
