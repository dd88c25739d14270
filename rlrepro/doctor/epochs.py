"""Epochs that make their gradient steps in other functions, each on a whole rollout."""

import ast
import re
from collections.abc import Iterator

from rlrepro.doctor.ast_index import FUNCTIONS, Module, calls_in, names_in, walk, words_of
from rlrepro.doctor.likely_rollouts import OTHER, SEVERAL, Place, is_several, measured, passed
from rlrepro.doctor.minibatches import learns, method_of_self
from rlrepro.doctor.networks import is_network
from rlrepro.doctor.project import Project

EPOCHS = re.compile(r"epoch|iter|updates?\b|updates?_(per|steps|times?|num)|num_updates|reuse|optim_", re.IGNORECASE)


def in_each_step(module: Module, project: Project) -> Iterator[Place]:
    """Networks in functions that an epoch calls with a whole rollout, as in loss = compute_loss(data), and those that
    get it before and after the epochs."""
    for loop in module.nodes[ast.For]:
        function = module.function(loop)
        inner = any(isinstance(node, ast.For | ast.While) for node in walk(loop) if node is not loop)
        if inner or not EPOCHS.search(ast.unparse(loop.iter)) or not learns(module, project, loop, depth=1):
            continue
        whole = _whole(function, loop) if ".sample(" not in ast.unparse(function) else set()
        called = list(_in_called(module, project, loop, whole)) if whole else []
        yield from called
        for call, text in measured(module, function, whole) if called else ():
            if is_network(module, call.func) and not module.loops(call):
                yield call, text


def _whole(function, loop) -> set[str]:
    """The variables with the name of a rollout, and what is taken from them, that are not assigned in the loop."""
    stores = (node for node in walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    taken = {
        ast.unparse(node.targets[0])
        for node in walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript) and is_several(node.value.value)
    }
    several = {name for name in names_in(function) if words_of(name) & SEVERAL and not words_of(name) & OTHER}
    return (several | taken) - {node.id for node in stores}


def _in_called(module: Module, project: Project, loop, whole: set[str]) -> Iterator[Place]:
    """The first network in each function of the module that the loop calls with one of these variables."""
    for call in calls_in(loop):
        target = method_of_self(module, project, call) or project.definition(module, call.func)
        if target is None or not isinstance(target.node, FUNCTIONS) or target.module is not module:
            continue
        inside = {name for name, arg in passed(target, call) if ast.unparse(arg) in whole}
        for node in walk(target.node):  # obs, act = data["obs"], data["act"]
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and names_in(node.value) & inside:
                inside |= set().union(*map(names_in, node.targets))
        yield from [*measured(module, target.node, inside)][:1] if inside else ()
