"""Rules for slow ways to create tensors, and for checks that cost more than the computation."""

import ast
import re
from collections.abc import Iterator

from rlrepro.doctor.arrays import list_of_arrays
from rlrepro.doctor.ast_index import last_name, words_of
from rlrepro.doctor.conversion_cost import is_frequent
from rlrepro.doctor.datasets import is_in_memory
from rlrepro.doctor.edits import imported, replaced
from rlrepro.doctor.finding import rule
from rlrepro.doctor.likely_arrays import likely_arrays
from rlrepro.doctor.minibatches import is_gradient_step, tensors_of
from rlrepro.doctor.runnable import TRAINING, is_script

CONSTRUCTORS = ("tensor", "as_tensor", "Tensor", "FloatTensor", "DoubleTensor", "LongTensor", "ByteTensor")
OPTIONS = {"args", "arg", "opt", "opts", "params", "cfg", "config", "conf", "hparams", "flags", "settings"}
ELSEWHERE = {"sbx", "flax", "optax", "ray"}  # packages that train without torch, or in other processes
ALGORITHMS = {"A2C", "DDPG", "DQN", "PPO", "SAC", "TD3"}
DEBUGS = re.compile(r"debug|(^|_)nan(_|$)", re.IGNORECASE)


def _as_array(module, call):
    """Wrap the list in np.array, whose memory torch copies at once."""
    alias = next((name for name, full in module.imports.items() if full == "numpy"), None)
    new = [] if alias else imported(module, "import numpy as np", beside="torch")
    if new is None or not isinstance(call, ast.Call):  # it is not certain that the list holds arrays
        return []
    return [replaced(call.args[0], f"{alias or 'np'}.array({ast.unparse(call.args[0])})"), *new]


@rule(
    "TO001",
    "a tensor is built from a list of arrays",
    words=("tensor(", "Tensor("),
    fix="torch.as_tensor(np.array(LIST), ...), or np.stack; for a list of tensors, torch.stack",
    chapter="07_your_own_code",
    autofix=_as_array,
    fix_when_low=True,
)
def tensor_from_list(module, project):
    """torch converts a list of arrays element by element, through Python objects. np.array copies each array in one
    operation, and torch copies the result in one more. PyTorch itself warns about this, once per process."""
    remaining = []
    for call in module.calls("torch", *CONSTRUCTORS):
        if call.args and (elements := list_of_arrays(module, project, call.args[0])):
            frequent = is_frequent(module, project, call) and not _optional(module, call)
            confidence = "medium" if frequent else "low"
            yield call, f"converts a list of arrays ({elements}) element by element", confidence
        elif call.args:
            remaining.append(call)
    for call in remaining:  # last, since a line gets only one finding
        if elements := likely_arrays(module, project, call.args[0]):
            yield call.func, f"{elements} is probably a list of arrays, which is converted element by element", "low"


def _optional(module, call) -> bool:
    """Whether a command line option or a setting decides if the call runs."""
    tests = (words_of(ast.unparse(node.test)) for node in module.ancestors(call) if isinstance(node, ast.If))
    return any(words & OPTIONS for words in tests)


def _switched_off(module, call):
    is_call = isinstance(call, ast.Call) and call.args  # otherwise it is a setting
    return [replaced(call.args[0], "False")] if is_call else []


@rule(
    "TO002",
    "anomaly detection is left on",
    words=("anomaly",),
    fix="Remove it, or enable it only with a debug flag.",
    chapter="07_your_own_code",
    autofix=_switched_off,
)
def anomaly_detection(module, project):
    """With `set_detect_anomaly(True)`, torch records a traceback for each operation and checks each gradient for NaN,
    in every step."""
    for call in module.calls("torch", "set_detect_anomaly", "detect_anomaly"):
        switched_on = module.value(module.argument(call, "mode", 0)) is True or (
            module.name(call.func).endswith(".detect_anomaly") and not call.args
        )
        if switched_on and not _conditional(module, call):
            function = ast.unparse(module.function(call)) if module.function(call) is not module.tree else ""
            idle = "no_grad" in function or _trains_nothing(module, project) or _is_switched_off(project)
            confidence = "low" if idle or DEBUGS.search(module.path.stem) else "high"
            yield call, "every operation of every step is traced while this is on", confidence
    for value in _settings(module):
        yield value, "every operation of every step is traced if this setting is used", "low"


def _settings(module) -> Iterator[ast.expr]:
    """The values of settings such as detect_anomaly=True and {"detect_anomaly": True}."""
    pairs = [(node.arg, node.value) for node in module.nodes[ast.keyword]]
    for node in module.nodes[ast.Dict]:
        pairs += zip((module.value(key) for key in node.keys), node.values, strict=True)
    for name, value in pairs:
        if isinstance(name, str) and name.endswith("detect_anomaly") and module.value(value) is True:
            yield value


def _is_switched_off(project) -> bool:
    """Whether some file of the project switches anomaly detection off."""
    return any(
        module.value(module.argument(call, "mode", 0)) is False
        for module in project.modules_with("set_detect_anomaly")
        for call in module.calls("torch", "set_detect_anomaly")
    )


def _trains_nothing(module, project) -> bool:
    """Whether a file trains with JAX or in Ray's processes, or names `backward` without calling it; or whether no other
    file imports it, and it is a script without calls that look like training or a module that nothing loads, such as a
    copy."""
    names = {full.split(".")[-1] for full in module.imports.values() if full.startswith("stable_baselines3.")}
    if module.packages() & ELSEWHERE and not names & ALGORITHMS and not any(map(is_gradient_step, module.all_calls)):
        return True
    statements = (node.value for node in module.nodes[ast.Expr])
    if ".backward(" not in module.text and any(last_name(node) == "backward" for node in statements):
        return True
    if module.path.suffix != ".py":
        return False
    if project.importers(module):
        return False
    if not any(TRAINING.search(last_name(call.func)) for call in module.all_calls):
        return True
    nearby = module.path.parents[:2]
    is_loaded = any(other.path.parent in nearby for other in project.modules_with("importlib"))
    if is_loaded or project.configures(module.path.stem) or is_script(project, module):
        return False
    is_mentioned = any(other is not module for other in project.modules_with(module.path.stem))
    return not is_mentioned or any(
        _is_copy(module, other) and project.importers(other) for other in project.namesakes(module)
    )


def _is_copy(module, other) -> bool:
    return bool(module.definitions) and module.definitions.keys() == other.definitions.keys()


def _conditional(module, call) -> bool:
    """Whether the call depends on a condition other than the file being run as a script."""
    return any(isinstance(node, ast.If) and "__name__" not in ast.unparse(node.test) for node in module.ancestors(call))


def _as_call(module, assignment):
    target = ast.unparse(assignment.targets[0])
    return [replaced(assignment, f"{target}({ast.unparse(assignment.value)})")]


@rule(
    "TO003",
    "argument validation that was meant to be off is on",
    words=("set_default_validate_args",),
    fix="Call it: Normal.set_default_validate_args(False). An assignment only replaces the function.",
    chapter="07_your_own_code",
    autofix=_as_call,
    fix_when_low=True,
)
def validation_assigned(module, project):
    """torch.distributions validates its arguments whenever a distribution is created or computes a log-probability.
    `set_default_validate_args` is a function: `Normal.set_default_validate_args = False` overwrites it."""
    for node in module.nodes[ast.Assign]:
        if any(
            isinstance(target, ast.Attribute) and target.attr == "set_default_validate_args" for target in node.targets
        ):
            yield node, "overwrites the function that would have switched validation off", "low"


@rule(
    "TO004",
    "a DataLoader makes minibatches from tensors that are already in memory",
    words=("DataLoader",),
    fix="for index in torch.randperm(len(x)).split(batch_size): x[index] ...",
    chapter="07_your_own_code",
)
def loader_over_tensors(module, project):
    """A DataLoader fetches a TensorDataset sample by sample and stacks the samples again. Indexing the tensors with a
    permutation gives the same minibatches in one operation each. Few programs spend much of their time on it."""
    for call in module.calls("torch", "DataLoader"):
        shuffled = module.value(module.argument(call, "shuffle")) is True
        trains = shuffled or any(is_gradient_step(call) for call in module.all_calls)
        dataset, batch_size = module.argument(call, "dataset", 0), module.argument(call, "batch_size", 1)
        is_custom = module.argument(call, "collate_fn") is not None or module.value(batch_size) == 1
        if trains and not is_custom and (tensors_of(module, dataset) or is_in_memory(module, project, dataset)):
            yield call, "each minibatch is fetched sample by sample and stacked again", "low"
