"""Whole rollouts that are likely to pass through a network: weaker evidence than in `rules/rollout`."""

import ast
import re
from collections.abc import Iterator

from rlrepro.doctor.ast_index import FUNCTIONS, Module, calls_in, last_name, names_in, walk, words_of
from rlrepro.doctor.minibatches import (
    LearningLoop,
    is_gradient_step,
    is_same,
    learns,
    method_of_self,
    part_of,
    without_views,
)
from rlrepro.doctor.networks import arguments, is_network, is_without_graph, network_calls
from rlrepro.doctor.project import Definition, Project

Place = tuple[ast.Call, str]  # a call, and what it gets at once

ADVANTAGE = {"advantage", "advantages", "adv", "gae"}
MODULE = {"module", "estimator", "net", "network"}
SEVERAL = {"states", "observations", "obses", "obss", "batch", "traj", "trajectory", "rollout", "memory", "episode"}
SEVERAL |= {"rollouts", "trajectories", "data", "buffer", "storage", "samples"}
OTHER = {"target", "next", "sample", "sampled", "mini", "minibatch", "mb", "expert"}
ACTS = re.compile(r"_?(act|select|choose|get|predict|step|sample|explore|eval|test|play)")
LOADS = re.compile(r"loader|dataset", re.IGNORECASE)
JOINS = ("cat", "concat", "hstack", "concatenate")
MEASURES = re.compile(r"_?(compute|evaluate|eval|calculate)_\w*(loss|kl|entrop|value|log)|evaluate_log_\w+")


def advantages(module: Module) -> Iterator[Place]:
    """TorchRL's advantage modules evaluate the value network on all that they get."""
    if not {"torchrl", "tensordict"} & module.packages():
        return
    for call in module.all_calls:
        words = words_of(last_name(call.func))
        is_module = bool(words & ADVANTAGE and words & MODULE) or {"value", "estimator"} <= words
        is_made = bool(words & {"get", "make", "build", "set"}) or last_name(call.func)[:1].isupper()
        batch = call.args and isinstance(without_views(call.args[0]), ast.Name)
        if batch and is_module and not is_made and not module.name(call.func):
            yield call, ast.unparse(call.args[0])


def kept_as_values(module: Module) -> Iterator[Place]:
    """Calls whose graph is recorded, although the result is detached: `v = critic(states)`, then `v.detach()`."""
    for node in module.nodes[ast.Assign]:
        call = node.value
        if not isinstance(call, ast.Call) or not is_network(module, call.func) or is_without_graph(module, call):
            continue
        function = module.function(call)
        whole = next((ast.unparse(arg) for arg in arguments(call) if is_several(arg)), None)
        if whole is None or ACTS.match(getattr(function, "name", "")) or words_of(ast.unparse(call.func)) & OTHER:
            continue
        loops = {*module.loops(call)}
        steps = (step for step in calls_in(function) if is_gradient_step(step))
        is_learned_from = any({*module.loops(step)} <= loops for step in steps)
        if not is_learned_from and _is_detached(module, function, node):
            yield call, whole


def is_several(arg) -> bool:
    """Whether an argument is several timesteps, as its name or a slice says."""
    if isinstance(arg, ast.Subscript) and isinstance(arg.slice, ast.Slice):
        return True
    words = words_of(last_name(without_views(arg)))
    return bool(words & SEVERAL) and not words & OTHER


def _is_detached(module: Module, function, assignment: ast.Assign) -> bool:
    """Whether a result of an assignment is read by `.detach()` or `.data`, before a network gives another one."""
    names = set().union(*map(names_in, assignment.targets))
    later = [node for node in walk(function) if getattr(node, "lineno", 0) > assignment.lineno]
    stores = (node for node in later if isinstance(node, ast.Assign))
    again = (node.lineno for node in stores if any(network_calls(module, node.value)))
    end = min(again, default=float("inf"))
    reads = (node for node in later if isinstance(node, ast.Attribute) and node.attr in ("detach", "data"))
    return any(node.lineno <= end and names_in(node) & names for node in reads)


def split_elsewhere(module: Module, project: Project, found: list[LearningLoop]) -> Iterator[Place]:
    """Networks that get what another function of the module splits into minibatches, or what a loader does."""
    split = {}  # function: the parameters that it splits
    for learning in [*found, *_loader_loops(module, project)]:
        function = module.function(learning.loop)
        if isinstance(function, FUNCTIONS):
            split.setdefault(function, set()).update({*parameters(function)} & learning.whole)
            yield from _joined(module, function, learning)
    for function in [node for kind in FUNCTIONS for node in module.nodes[kind]] if split else ():
        if whole := _passed_to(module, project, function, split):
            yield from measured(module, function, whole)


def measured(module: Module, function, whole: set[str]) -> Iterator[Place]:
    """The calls of networks that get one of these variables, or a part of it, and calls of functions that are named
    after what they compute with a network, such as compute_kl."""
    for call in calls_in(function):
        text = next((text for arg in arguments(call) if (text := part_of(arg, whole))), None)
        if text and (is_network(module, call.func) or MEASURES.match(last_name(call.func))):
            yield call, text


def parameters(function) -> list[str]:
    return [argument.arg for argument in function.args.args if argument.arg != "self"]


def passed(target: Definition, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of a function with the arguments that a call passes."""
    yield from zip(parameters(target.node), call.args, strict=False)
    yield from ((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg)


def _passed_to(module: Module, project: Project, function, split: dict) -> set[str]:
    """The variables that a function passes to one that splits them, or that it returns under the same name."""
    whole = set()
    for call in calls_in(function):
        target = method_of_self(module, project, call) or project.definition(module, call.func)
        if target is not None and target.node in split:
            whole |= {ast.unparse(arg) for name, arg in passed(target, call) if name in split[target.node]}
    if function not in split and not any(is_gradient_step(call) for call in calls_in(function)):
        made = {ast.unparse(node.targets[0]) for node in walk(function) if isinstance(node, ast.Assign)}
        returned = (names_in(node) for node in walk(function) if isinstance(node, ast.Return))
        several = {name for names in split.values() for name in names if words_of(name) & SEVERAL}
        whole |= made & several & set().union(*returned)
    return {text for text in whole if text.isidentifier() or "." in text}


def _loader_loops(module: Module, project: Project) -> Iterator[LearningLoop]:
    """Loops over what a function named like a loader makes of a variable: dl = make_loader(data, 64)."""
    for loop in module.nodes[ast.For]:
        source = module.stores.get(loop.iter.id) if isinstance(loop.iter, ast.Name) else loop.iter
        if isinstance(source, ast.Call) and LOADS.search(last_name(source.func)) and learns(module, project, loop):
            yield LearningLoop(loop, {node.id for node in source.args if isinstance(node, ast.Name)})


def _joined(module: Module, function, learning: LearningLoop) -> Iterator[Place]:
    """Calls outside the loop that get the whole after a loader, an entry of it, or joined with something else."""
    entries = {
        ast.unparse(node.targets[0])
        for node in walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)
        if part_of(node.value, learning.whole)
    }
    for call in network_calls(module, function):
        parts = [part for arg in arguments(call) for part in _parts(arg)]
        text = next((text for part in parts if (text := part_of(part, learning.whole | entries))), None)
        is_outside = text and not module.is_within(call, learning.loop)
        if is_outside and is_same(module, function, text, call, learning.loop):
            yield call, text


def _parts(arg) -> list[ast.expr]:
    """The x and y of torch.cat([x, y], 1)."""
    joined = isinstance(arg, ast.Call) and last_name(arg.func) in JOINS and arg.args
    return arg.args[0].elts if joined and isinstance(arg.args[0], ast.List | ast.Tuple) else [arg]


def indexed_afterwards(module: Module) -> Iterator[Place]:
    """net(states)[index] in a loop over minibatches: all states, for each of them."""
    for loop in module.nodes[ast.For]:
        moving = names_in(loop.target)
        if not any(is_gradient_step(call) for call in calls_in(loop)):
            continue
        for node in walk(loop):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id in moving:
                yield from (
                    (call, ast.unparse(call.args[0])) for call in network_calls(module, node.value) if call.args
                )
