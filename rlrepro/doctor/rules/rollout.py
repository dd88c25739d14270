"""Rules for whole rollouts that pass through a network at once."""

import ast
import re

from rlrepro.doctor.ast_index import FUNCTIONS, last_name, words_of
from rlrepro.doctor.finding import rule
from rlrepro.doctor.minibatches import is_gradient_step, learning_loops, learns, part_of, without_views

# Words in the name of a network, and words whose presence means that it is something else.
NETWORK = {
    "actor",
    "critic",
    "policy",
    "net",
    "network",
    "model",
    "agent",
    "ac",
    "encoder",
    "vf",
    "pi",
    "discriminator",
}
NETWORK |= {"baseline", "predictor", "critics", "value", "module", "nn", "qnet", "pinet", "vnet", "disc"}
NOT = {"env", "envs", "buffer", "loss", "losses", "optim", "optimizer", "scaler", "normalizer", "rms", "log", "logger"}
NOT |= {"scheduler", "config", "cfg", "save", "load", "trainer", "normalizers", "normaliser", "norm", "dict", "loader"}
METHODS = {"forward", "evaluate_actions", "evaluate", "get_value", "get_values", "get_action_and_value", "act", "v"}
METHODS |= {"predict_values", "compute_values", "evaluate_action", "get_dist", "actor", "critic", "policy", "predict"}
METHODS |= {"get_distribution", "get_action_log_prob", "get_log_prob", "action_log_prob", "pi", "get_policy", "value"}
KNOWN = {"torch", "numpy", "tianshou", "torchrl", "gym", "gymnasium", "random", "math"}
BLOCKS = (*FUNCTIONS, ast.For, ast.While, ast.With, ast.Module)
LARGE = re.compile(r"\b(Conv[23]d|TransformerEncoder|MultiheadAttention)\(")
EPOCHS = re.compile(
    r"epoch|iters?\b|updates?\b|updates?_(per|steps|times?|num)|num_updates|reuse|optim_", re.IGNORECASE
)
MADE_WHOLE = {"stack", "cat", "tensor", "as_tensor", "FloatTensor", "Tensor", "from_numpy", "concatenate", "array"}
ROLLOUT = re.compile(r"memor|buffer|rollout|traj|batch_(obs|states)|states|observations|obs_|transition|episode", re.I)


@rule(
    "RO001",
    "a whole rollout passes through a network at once, in a function that learns in minibatches",
    words=("backward", "optim", "evaluate_actions"),
    fix="rlrepro.fixes.in_chunks(network, rollout, size=minibatch), under torch.no_grad() if you need no gradients",
    chapter="02_logp_old_oom",
    claims=("LO1", "LO2"),
)
def whole_at_once(module, project):
    """The gradient steps use minibatches because the whole rollout does not fit with gradients. The memory of this
    pass is proportional to the rollout, whatever the minibatch size; without `no_grad` it also keeps the autograd
    graph."""
    confidence = _confidence(module, project)
    seen = set()  # report each block and rollout once
    for learning in learning_loops(module, project):
        function = module.function(learning.loop)
        for call in _network_calls(module, function):
            called = project.definition(module, call.func)
            if module.is_within(call, learning.loop) or (called and learns(called.module, project, called.node)):
                continue  # a function that learns takes its own minibatches
            whole = next((text for arg in _arguments(call) if (text := part_of(arg, learning.whole))), None)
            block = next(node for node in module.ancestors(call) if isinstance(node, BLOCKS))
            if whole and (block, whole) not in seen and _is_same(module, function, whole, call, learning.loop):
                seen.add((block, whole))
                message = f"{ast.unparse(call.func)} gets all of {whole} at once; line {learning.loop.lineno} takes "
                yield call, message + "minibatches of it", "low" if _is_without_graph(module, call) else confidence
    for call in module.methods("evaluate_actions"):
        function = module.function(call)
        learning = "loss" in ast.unparse(function)  # then it is the gradient step itself
        if (whole := _all_timesteps(call)) and not learning and (function, whole) not in seen:
            seen.add((function, whole))
            yield call, f"evaluate_actions gets all timesteps of {whole} at once", "low"  # its images are optional


@rule(
    "RO002",
    "every gradient step uses the whole rollout",
    words=("backward", "optim", "evaluate_actions"),
    fix="for index in torch.randperm(len(x)).split(minibatch): x[index] ... (this also means more gradient steps)",
    chapter="02_logp_old_oom",
)
def no_minibatches(module, project):
    """All timesteps of the rollout pass through the network with gradients, several times, and are never split into
    minibatches: the memory of a gradient step grows with the rollout, and there is no batch size to lower."""
    for loop in module.nodes[ast.For]:
        if not EPOCHS.search(ast.unparse(loop.iter)):
            continue
        inner = [node for node in ast.walk(loop) if isinstance(node, ast.For | ast.While) and node is not loop]
        steps = [node for node in ast.walk(loop) if isinstance(node, ast.Call) and is_gradient_step(node)]
        if not steps or any(module.is_within(step, loop) for step in steps for loop in inner):
            continue
        function = module.function(loop)
        for call in _network_calls(module, function, NETWORK | {"loss"}):
            if module.is_within(call, loop) and (whole := _stacked(module, function, loop, call)):
                message = f"{ast.unparse(call.func)} gets all of {whole} in each gradient step, without minibatches"
                yield call, message, "low"  # usually intended, with short rollouts and small networks
                break


def _confidence(module, project) -> str:
    """Small networks take little memory however long the rollout is, so medium confidence requires a convolution or
    attention in what the module imports."""
    return "medium" if any(LARGE.search(other.text) for other in project.imported_by(module)) else "low"


def _is_without_graph(module, call) -> bool:
    """Whether the call is under no_grad. Without a graph, a rollout of usual length takes little memory."""
    parts = (
        part
        for node in module.ancestors(call)
        for name in ("items", "decorator_list")
        for part in getattr(node, name, ())
    )
    return any("no_grad" in ast.unparse(part) for part in parts)


def _network_calls(module, function, words=frozenset(NETWORK)):
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _is_network(module, node.func, words):
            yield node


def _is_network(module, func, words) -> bool:
    """Whether a name is typical of a network or its methods: a guess, which is rarely wrong."""
    name = last_name(func)
    if not name or name[:1].isupper() or (module.name(func) or "").split(".")[0] in KNOWN:
        return False
    if isinstance(func, ast.Attribute) and name in METHODS:
        return bool(words_of(ast.unparse(func.value)) & (NETWORK | {"self"})) and not words_of(ast.unparse(func)) & NOT
    return (
        bool(words_of(name) & NETWORK) and not words_of(ast.unparse(func)) & NOT and not name.startswith(("get_", "_"))
    )


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _is_same(module, function, whole: str, call, loop) -> bool:
    """Whether a name has the same value at the call and at the loop, and no environment is stepped around the call."""
    around = [node for node in module.loops(call) if node not in module.loops(loop)]
    steps = (node for outer in around for node in ast.walk(outer) if isinstance(node, ast.Call))
    if any(last_name(step.func) == "step" and "env" in ast.unparse(step.func) for step in steps):
        return False
    lines = [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and not module.is_within(node, loop) and whole in map(ast.unparse, node.targets)
    ]
    before = [max((line for line in lines if line < place.lineno), default=0) for place in (call, loop)]
    return before[0] == before[1]


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
    outside = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and not module.is_within(node, loop):
            for target in node.targets:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    outside[ast.unparse(part)] = node.value
    for arg in _arguments(call):
        value = outside.get(ast.unparse(arg))
        if value is not None and _is_rollout(value):
            return ast.unparse(arg)
    return None


def _is_rollout(value) -> bool:
    """Whether the value comes from a method such as collect, or is a tensor built from a rollout's lists."""
    calls = {last_name(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)}
    text = ast.unparse(value)
    taken = "get" in calls and re.search(r"buf|memory|rollout", text)  # unlike sample, get returns everything
    return (
        bool(calls & {"rollout", "collect_rollout", "collect", "collect_trajectories"})
        or bool(taken)
        or (bool(calls & MADE_WHOLE) and bool(ROLLOUT.search(text)))
    )
