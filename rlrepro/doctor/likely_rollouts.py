"""Recognize whole rollouts that probably pass through a network, on weaker evidence than in `rules/rollout`."""

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

Place = tuple[ast.Call, str]  # a call, and the text of the rollout that it receives at once

ADVANTAGE = {"advantage", "advantages", "adv", "gae"}
MODULE = {"module", "estimator", "net", "network"}
SEVERAL = {"states", "observations", "obses", "obss", "batch", "traj", "trajectory", "rollout", "memory", "episode"}
SEVERAL |= {"rollouts", "trajectories", "data", "buffer", "storage", "samples"}
NOT_ROLLOUT = {"target", "next", "last", "sample", "sampled", "mini", "minibatch", "mb", "expert"}
RECURRENT = {"rnn", "lstm", "gru", "hidden", "recurrent"}  # in the name of a recurrent network's state
OTHER_FRAMEWORKS = {"chainer", "flax", "jax", "mindspore", "mlx", "paddle", "tensorflow"}
ACTS = re.compile(
    r"_?(batch_)?(act|select|choose|get|predict|step|sample|explore|eval|test|play|search|plan|compute_\w*action)"
    r"|__call__"
)
LOADS = re.compile(r"loader|dataset", re.IGNORECASE)
JOINS = ("cat", "concat", "hstack", "concatenate")
MEASURES = re.compile(r"_?(compute|evaluate|eval|calculate)_\w*(loss|kl|entrop|value|log)|evaluate_log_\w+")


def advantages(module: Module) -> Iterator[Place]:
    """Calls of TorchRL's advantage modules, which evaluate the value network on all of their input at once."""
    if not {"torchrl", "tensordict"} & module.packages():
        return
    for call in module.all_calls:
        words = words_of(last_name(call.func))
        is_module = bool(words & ADVANTAGE and words & MODULE) or {"value", "estimator"} <= words
        is_factory = bool(words & {"get", "make", "build", "set"}) or last_name(call.func)[:1].isupper()
        batch = call.args and isinstance(without_views(call.args[0]), ast.Name)
        if batch and is_module and not is_factory and not module.name(call.func):
            yield call, ast.unparse(call.args[0])


def kept_as_values(module: Module) -> Iterator[Place]:
    """Calls that record a graph although the result is detached: `v = critic(states)`, then `v.detach()`."""
    if module.packages() & OTHER_FRAMEWORKS and "torch" not in module.packages():
        return
    for node in module.nodes[ast.Assign]:
        call = node.value
        if not isinstance(call, ast.Call) or not is_network(module, call.func) or is_without_graph(module, call):
            continue
        function = module.function(call)
        several = (ast.unparse(arg) for arg in arguments(call) if is_several(arg))
        text = next((text for text in several if text not in _counts(function)), None)
        if (
            text is None
            or _is_current(module, call, text)
            or ACTS.match(getattr(function, "name", ""))
            or words_of(ast.unparse(call.func)) & NOT_ROLLOUT
        ):
            continue
        loops = {*module.loops(call)}
        steps = (step for step in calls_in(function) if is_gradient_step(step))
        is_learned_from = any({*module.loops(step)} <= loops for step in steps)
        if not is_learned_from and _is_detached(module, function, node):
            yield call, text


def _is_current(module: Module, call: ast.Call, name: str) -> bool:
    """Whether the loop around a call assigns this variable after it, for the next iteration: then it holds the current
    states of several environments."""
    loop = next(iter(module.loops(call)), None)
    stores = (node for node in walk(loop) if isinstance(getattr(node, "ctx", None), ast.Store)) if loop else ()
    return any(node.lineno > call.lineno and ast.unparse(node) == name for node in stores)


def _counts(function) -> set[str]:
    """The parameters of a function that are annotated as int."""
    arguments = function.args.args + function.args.kwonlyargs if isinstance(function, FUNCTIONS) else ()
    return {argument.arg for argument in arguments if getattr(argument.annotation, "id", "") == "int"}


def is_several(arg) -> bool:
    """Whether an argument holds several timesteps, judged by its name or a slice."""
    if isinstance(arg, ast.Subscript) and isinstance(arg.slice, ast.Slice):
        return True
    words = words_of(last_name(without_views(arg)))
    return bool(words & SEVERAL) and not words & (NOT_ROLLOUT | RECURRENT)


def _is_detached(module: Module, function, assignment: ast.Assign) -> bool:
    """Whether a result of an assignment is read through `.detach()` or `.data` before a network is called again."""
    names = set().union(*map(names_in, assignment.targets))
    later = [node for node in walk(function) if getattr(node, "lineno", 0) > assignment.lineno]
    stores = (node for node in later if isinstance(node, ast.Assign))
    reassignments = (node.lineno for node in stores if any(network_calls(module, node.value)))
    end = min(reassignments, default=float("inf"))
    reads = (node for node in later if isinstance(node, ast.Attribute) and node.attr in ("detach", "data"))
    return any(node.lineno <= end and names_in(node) & names for node in reads)


def split_elsewhere(module: Module, project: Project, learning_loops: list[LearningLoop]) -> Iterator[Place]:
    """Calls of networks on data that another function of the module, or a loader, splits into minibatches."""
    split = {}  # function: the parameters that it splits
    for learning in [*learning_loops, *_loader_loops(module, project)]:
        function = module.function(learning.loop)
        if isinstance(function, FUNCTIONS):
            split.setdefault(function, set()).update({*parameters(function)} & learning.whole)
            yield from _joined(module, function, learning)
    for function in [node for kind in FUNCTIONS for node in module.nodes[kind]] if split else ():
        if expressions := _passed_to(module, project, function, split):
            yield from measured(module, function, expressions)


def measured(module: Module, function, expressions: set[str]) -> Iterator[Place]:
    """The calls that receive one of these expressions, or a part of it, and that call a network, or a function named
    after a result of a network, such as compute_kl."""
    for call in calls_in(function):
        text = next((text for arg in arguments(call) if (text := part_of(arg, expressions))), None)
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
    expressions = set()
    for call in calls_in(function):
        target = method_of_self(module, project, call) or project.definition(module, call.func)
        if target is not None and target.node in split:
            expressions |= {ast.unparse(arg) for name, arg in passed(target, call) if name in split[target.node]}
    if function not in split and not any(is_gradient_step(call) for call in calls_in(function)):
        assigned = {ast.unparse(node.targets[0]) for node in walk(function) if isinstance(node, ast.Assign)}
        returned = (names_in(node) for node in walk(function) if isinstance(node, ast.Return))
        rollouts = {name for names in split.values() for name in names if words_of(name) & SEVERAL}
        expressions |= assigned & rollouts & set().union(*returned)
    return {text for text in expressions if text.isidentifier() or "." in text}


def _loader_loops(module: Module, project: Project) -> Iterator[LearningLoop]:
    """Loops over the result of a function that is named like a loader: dl = make_loader(data, 64)."""
    for loop in module.nodes[ast.For]:
        source = module.stores.get(loop.iter.id) if isinstance(loop.iter, ast.Name) else loop.iter
        if isinstance(source, ast.Call) and LOADS.search(last_name(source.func)) and learns(module, project, loop):
            yield LearningLoop(loop, {node.id for node in source.args if isinstance(node, ast.Name)})


def _joined(module: Module, function, learning: LearningLoop) -> Iterator[Place]:
    """Calls outside the loop that receive all of its data, an entry of it, or the data joined with something else."""
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
    is_joined = isinstance(arg, ast.Call) and last_name(arg.func) in JOINS and arg.args
    return arg.args[0].elts if is_joined and isinstance(arg.args[0], ast.List | ast.Tuple) else [arg]


def indexed_afterwards(module: Module) -> Iterator[Place]:
    """net(states)[index] in a loop over minibatches: every iteration passes all states."""
    for loop in module.nodes[ast.For]:
        loop_variables = names_in(loop.target)
        if not any(is_gradient_step(call) for call in calls_in(loop)):
            continue
        for node in walk(loop):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id in loop_variables:
                yield from (
                    (call, ast.unparse(call.args[0])) for call in network_calls(module, node.value) if call.args
                )
