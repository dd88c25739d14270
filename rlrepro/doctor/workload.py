"""What a process computes with torch, judged by its code."""

import ast
import re
from typing import NamedTuple

from rlrepro.doctor.ast_index import Module, calls_in, last_name, words_of
from rlrepro.doctor.call_graph import LEARNER, Reachable
from rlrepro.doctor.project import Definition, Project

TORCH = {
    "lightning",
    "pearl",
    "pytorch_lightning",
    "sb3_contrib",
    "stable_baselines3",
    "tensordict",
    "tianshou",
    "torch",
    "torchrl",
    "transformers",
}
LEARNERS = {
    "learn": {"stable_baselines3", "sb3_contrib", "pearl"},
    "fit": {"lightning", "pytorch_lightning", "d3rlpy"},
    "run_training": {"tianshou"},
}
TRAINERS = ("onpolicy_trainer", "offpolicy_trainer", "offline_trainer")
TORCH_OPS = ("matmul", "mm", "bmm", "einsum", "tanh", "relu", "conv2d", "linear", "randn", "rand")
CONVOLUTION = re.compile(r"\bConv[123]d\(")
LARGE = re.compile(r"\b(Conv[123]d|(RNN|LSTM|GRU)(Cell)?|Transformer\w*|MultiheadAttention)\(")
INPUTS = 16  # of a layer, up to which MKL computes the product of a few states in one thread; measured with torch 2.13
WEIGHTS = 2_048  # of a layer, up to which torch takes the roots of Adam's step in one thread
LOG_PROBABILITIES = re.compile(r"(.*_)?log_?(probs?|ps?|pis?|s)(_.*)?")
JOINS = {"array", "asarray", "cat", "concat", "concatenate", "from_numpy", "stack", "tensor", "vstack", "FloatTensor"}
STATES = {"states", "observations", "batch", "memory", "buffer", "transitions"}
ACTS = re.compile(r"act|select|choose|get|predict|eval|test|sample|forward")
INFERRER = {"policy", "search", "game", "self"}
INFERS = {
    "act",
    "predict",
    "get_action",
    "select_action",
    "choose_action",
    "get_action_prob",
    "policy_value",
    "forward",
}
INFERS |= {"evaluate", "inference", "policy_value_fn", "get_actions", "initial_inference", "play", "model", "policy"}
INFERS |= {"net", "network", "nnet", "actor"}


class Workload(NamedTuple):
    """What is computed, and where. `sure` if the call itself does it; otherwise only its name suggests it."""

    what: str
    module: Module
    node: ast.AST
    sure: bool = False


TRAINING_NAME = re.compile(r"train|learn", re.IGNORECASE)
STEP = re.compile(r"\.backward\(")
ONE_GPU_EACH = ("init_process_group", "set_device", "DistributedDataParallel", "init_distributed", "Accelerator")


def trains(module: Module, call: ast.Call) -> bool:
    """Whether a call computes gradients, or runs a library's whole training."""
    name, attribute = module.name(call.func) or "", getattr(call.func, "attr", "")
    if name.split(".")[-1] in TRAINERS and name.startswith("tianshou"):
        return True
    if name and name.split(".")[0] != "self" and not name.startswith("torch.autograd"):
        return False
    if attribute == "backward":
        return True
    return bool(LEARNERS.get(attribute, set()) & module.packages())


def workload_of(
    project: Project, module: Module, target: Definition, reached: Reachable, method: str
) -> Workload | None:
    """What processes compute if `module` starts them by `method` ("fork" or "spawn") to run `target`. `reached` has the
    functions that `target` may call. None if they compute little with torch, or if each process has its own GPU."""
    calls = list(reached.calls())
    modules = list(dict.fromkeys([*project.imported_by(module), *reached.modules]))
    if have_own_gpus(calls) or not any(mod.packages() & TORCH for mod in modules):
        return None
    for call_site in calls:
        if trains(*call_site):
            return Workload("trains", *call_site, sure=True)
    learners = {node.name for mod in modules for node in _learning_methods(mod) if not ACTS.match(node.name)}
    for call_site in calls:
        if last_name(call_site[1].func) in learners and is_called_on(call_site[1], LEARNER):
            return Workload("trains", *call_site)
    on_gpu = method != "fork" and any("cuda" in mod.text for mod in (module, *reached.modules))
    if not on_gpu and any(CONVOLUTION.search(mod.text) for mod in modules):
        for call_site in calls:
            if last_name(call_site[1].func) in INFERS and is_called_on(call_site[1], LEARNER | INFERRER):
                return Workload("runs a convolutional network", *call_site)
    match = TRAINING_NAME.search(getattr(target.node, "name", ""))
    if match and any(STEP.search(mod.text) for mod in project.imported_by(target.module)):
        return Workload(f"runs {target.node.name}", *target)  # the learner may come from a registry
    return None


def is_tiny(modules: list[Module], *, one_state: bool = False) -> bool:
    """Whether all networks of these modules are evidently too small for torch to share an operation among threads: they
    consist of linear layers of at most WEIGHTS weights and INPUTS inputs, or any inputs if states come one at a
    time."""
    if any(LARGE.search(module.text) for module in modules):
        return False
    layers, unknown_widths = [], {"in_features": set(), "out_features": set()}
    for module in modules:
        for call in module.calls("torch", "Linear"):
            sizes = []
            for position, name in enumerate(unknown_widths):
                node = module.argument(call, name, position)
                size = module.value(node)
                if not isinstance(size, int):  # of a state or an action, assumed to be small
                    width = node.value if isinstance(node, ast.Subscript) else node  # widths of the list sizes[i]
                    unknown_widths[name].add(ast.unparse(width) if width else "")
                    size = INPUTS
                sizes.append(size)
            layers.append((one_state or sizes[0] <= INPUTS) and sizes[0] * sizes[1] <= WEIGHTS)
    is_width_unknown = bool(set.intersection(*unknown_widths.values()))  # of a layer between two others
    return bool(layers) and all(layers) and not is_width_unknown


def keeps_results(reached: Reachable) -> bool:
    """Whether the loss is computed from log-probabilities that the network returned for one state at a time: they are
    kept in a list, no ratio to others is taken, and no states are batched."""
    calls = [call for _, call in reached.calls()]
    if any(last_name(call.func) == "exp" or _joins_states(call) for call in calls):
        return False
    lists = (last_name(call.func.value) for call in calls if getattr(call.func, "attr", "") == "append")
    return any(LOG_PROBABILITIES.fullmatch(name) for name in lists)


def _joins_states(call: ast.Call) -> bool:
    words = {word for argument in call.args[:1] for word in words_of(ast.unparse(argument))}
    return last_name(call.func) in JOINS and bool(words & STATES)


def have_own_gpus(calls: list[tuple[Module, ast.Call]]) -> bool:
    """Whether processes that make these calls have a GPU each."""
    last_names = {(module.name(call.func) or last_name(call.func)).split(".")[-1] for module, call in calls}
    return bool(last_names & {*ONE_GPU_EACH})


def _learning_methods(module: Module) -> list[ast.FunctionDef]:
    """The methods of a module that make gradient steps."""
    if not STEP.search(module.text):
        return []
    methods = [node for node in module.nodes[ast.FunctionDef] if isinstance(module.parents[node], ast.ClassDef)]
    return [node for node in methods if any(trains(module, call) for call in calls_in(node))]


def is_called_on(call: ast.Call, words: set[str]) -> bool:
    """Whether the object whose method is called has one of these words in its name."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return bool(words_of(ast.unparse(owner)) & words)
