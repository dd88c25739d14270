"""Rules for whole rollouts that pass through a network at once."""

import ast
import re
from itertools import chain

from rlrepro.doctor.ast_index import FUNCTIONS, calls_in, last_name, names_in, walk
from rlrepro.doctor.epochs import EPOCHS, in_each_step
from rlrepro.doctor.finding import rule
from rlrepro.doctor.likely_rollouts import advantages, indexed_afterwards, kept_as_values, split_elsewhere
from rlrepro.doctor.minibatches import (
    is_gradient_step,
    is_same,
    learning_loops,
    learns,
    method_of_self,
    part_of,
    takes_parts,
    without_views,
)
from rlrepro.doctor.networks import NETWORK, arguments, is_without_graph, network_calls

BLOCKS = (*FUNCTIONS, ast.For, ast.While, ast.With, ast.Module)
LEARNS = ("backward", "optim", "evaluate_actions")
LARGE = re.compile(r"\b(Conv[23]d|TransformerEncoder|MultiheadAttention)\(")
STACKERS = {"stack", "cat", "tensor", "as_tensor", "FloatTensor", "Tensor", "from_numpy", "concatenate", "array"}
SAMPLES = {"random.sample", "random.choices", "numpy.random.choice"}
ROLLOUT = re.compile(r"memor|buffer|rollout|traj|batch_(obs|states)|states|observations|obs_|transition|episode", re.I)


@rule(
    "RO001",
    "a whole rollout passes through a network at once",
    words=(*LEARNS, "advantage", "detach", ".data"),
    fix="Use rlrepro.fixes.in_chunks(network, rollout, size=minibatch), under torch.no_grad() if you need no "
    "gradients.",
    chapter="02_logp_old_oom",
    claims=("LO1", "LO2"),
)
def whole_at_once(module, project):
    """The gradient steps use minibatches, which bounds their memory. The memory of this pass is proportional to the
    rollout, regardless of the minibatch size; without `no_grad` it also keeps the autograd graph."""
    confidence = _confidence(module, project)
    seen = set()  # report each block and rollout once
    loops = list(learning_loops(module, project))
    for learning in loops:
        function = module.function(learning.loop)
        for call in network_calls(module, function):
            if module.is_within(call, learning.loop) or _takes_parts_itself(module, project, call):
                continue
            whole = next((text for arg in arguments(call) if (text := part_of(arg, learning.whole))), None)
            block = next(node for node in module.ancestors(call) if isinstance(node, BLOCKS))
            if not whole or (block, whole) in seen or _is_drawn(module, function, whole):
                continue
            if is_same(module, function, whole, call, learning.loop):
                seen.add((block, whole))
                message = f"{ast.unparse(call.func)} gets all of {whole} at once; line {learning.loop.lineno} takes "
                yield call, message + "minibatches of it", "low" if is_without_graph(module, call) else confidence
    for call in module.methods("evaluate_actions"):
        has_loss = "loss" in ast.unparse(module.function(call))  # then it is the gradient step itself
        if (whole := _all_timesteps(call)) and not has_loss:
            yield call, f"evaluate_actions gets all timesteps of {whole} at once", "low"  # its images are optional
    places = (advantages(module), kept_as_values(module), split_elsewhere(module, project, loops))
    for call, whole in chain(*places, indexed_afterwards(module)):
        if not (_takes_parts_itself(module, project, call) or _is_drawn(module, module.function(call), whole)):
            yield call, f"{ast.unparse(call.func)} probably gets a whole rollout at once: {whole}", "low"


@rule(
    "RO002",
    "every gradient step uses the whole rollout",
    words=LEARNS,
    fix="for index in torch.randperm(len(x)).split(minibatch): x[index] ... (this also means more gradient steps)",
    chapter="02_logp_old_oom",
)
def no_minibatches(module, project):
    """All timesteps of the rollout pass through the network with gradients, several times, and are never split into
    minibatches: the memory of a gradient step grows with the rollout, and there is no batch size to lower."""
    for loop in module.nodes[ast.For]:
        if not EPOCHS.search(ast.unparse(loop.iter)):
            continue
        inner = [node for node in walk(loop) if isinstance(node, ast.For | ast.While) and node is not loop]
        steps = [node for node in walk(loop) if isinstance(node, ast.Call) and is_gradient_step(node)]
        if not steps or any(module.is_within(step, loop) for step in steps for loop in inner):
            continue
        function = module.function(loop)
        for call in network_calls(module, function, NETWORK | {"loss"}):
            if module.is_within(call, loop) and (whole := _stacked(module, function, loop, call)):
                message = f"{ast.unparse(call.func)} gets all of {whole} in each gradient step, without minibatches"
                yield call, message, "low"  # usually intended, with short rollouts and small networks
                break
    for call, whole in in_each_step(module, project):
        yield call, f"{ast.unparse(call.func)} probably gets all of {whole}, which nothing splits", "low"


def _takes_parts_itself(module, project, call) -> bool:
    """Whether the call is to a function of the project that learns, or that processes its values part by part: it
    splits them itself."""
    called = method_of_self(module, project, call) or project.definition(module, call.func)
    if called is None:
        return False
    return takes_parts(called.node) or learns(called.module, project, called.node)


def _is_drawn(module, function, whole: str) -> bool:
    """Whether a variable was made from a random sample of a list, which is not a rollout."""
    assigned = {
        ast.unparse(target): node.value
        for node in walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
    }
    value = assigned.get(whole)
    sources = [value, *(assigned[name] for name in names_in(value) if name in assigned)] if value else []
    return any(module.name(call.func) in SAMPLES for source in sources for call in calls_in(source))


def _confidence(module, project) -> str:
    """Small networks take little memory even with a long rollout. Medium confidence therefore requires a convolution or
    attention in what the module imports, and that the module itself learns."""
    trains = any(word in module.text for word in LEARNS)
    return "medium" if trains and any(LARGE.search(other.text) for other in project.imported_by(module)) else "low"


def _all_timesteps(call: ast.Call) -> str | None:
    """buffer.obs[:-1].reshape(-1, ...): every timestep of a rollout buffer, as in code derived from MAPPO."""
    for arg in call.args:
        inner = without_views(arg)
        if inner is not arg and isinstance(inner, ast.Subscript) and ast.unparse(inner.slice) == ":-1":
            return ast.unparse(inner.value)
    return None


def _stacked(module, function, loop, call) -> str | None:
    """The argument that was built before the loop from the lists of a rollout, or None if it is a sample of them."""
    if ".sample(" in ast.unparse(function):
        return None
    assigned = {}
    for node in walk(function):
        if isinstance(node, ast.Assign) and not module.is_within(node, loop):
            for target in node.targets:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    assigned[ast.unparse(part)] = node.value
    for arg in arguments(call):
        value = assigned.get(ast.unparse(arg))
        if value is not None and _is_rollout(value):
            return ast.unparse(arg)
    return None


def _is_rollout(value) -> bool:
    """Whether the value comes from a method such as collect, or is a tensor built from a rollout's lists."""
    calls = {last_name(node.func) for node in walk(value) if isinstance(node, ast.Call)}
    text = ast.unparse(value)
    gets_all = "get" in calls and re.search(r"buf|memory|rollout", text)  # unlike sample, get returns everything
    return (
        bool(calls & {"rollout", "collect_rollout", "collect", "collect_trajectories"})
        or bool(gets_all)
        or (bool(calls & STACKERS) and bool(ROLLOUT.search(text)))
    )
