"""Rules for large discrete action spaces."""

import ast

from rlrepro.doctor.ast_index import UNKNOWN, walk
from rlrepro.doctor.finding import rule

LARGE = 1000  # actions from which storing all of them in each transition matters
STORING = ("extend", "add", "push", "append", "store", "set_at")


@rule(
    "LA001",
    "GymEnv encodes a large discrete space as one-hot vectors",
    words=("GymEnv", "GymWrapper"),
    fix="Pass categorical_action_encoding=True. An action is then an index, so check the code that reads it.",
    chapter="05_large_action_spaces",
    claims=("LA2",),
)
def one_hot_environment(module, project):
    """By default, GymEnv encodes an action as a one-hot vector of int64. Every transition then stores eight bytes for
    each possible action."""
    largest = max((n for n in _spaces(module) if n is not UNKNOWN), default=0)
    if largest < LARGE:
        return
    for call in module.calls("torchrl", "GymEnv", "GymWrapper"):
        if not module.spreads(call) and module.argument(call, "categorical_action_encoding") is None:
            yield call, f"each of {largest:,} actions is stored as a one-hot vector of {8 * largest:,} bytes", "high"


@rule(
    "LA002",
    "one-hot vectors of a large space are stored",
    words=("one_hot",),
    fix="Store the index. Build the one-hot vectors per batch or, better, look up rows of an action table.",
    chapter="05_large_action_spaces",
    claims=("LA1", "LA2"),
)
def one_hot_stored(module, project):
    """`F.one_hot` takes eight bytes for each possible action, and a replay buffer stores them with every transition."""
    for call in module.calls("torch", "one_hot"):
        count = module.value(module.argument(call, "num_classes", 1))
        if isinstance(count, int) and count >= LARGE and _is_stored(module, call):
            yield call, f"each stored action takes {8 * count:,} bytes", "high"


@rule(
    "LA003",
    "a large action space in Pearl",
    words=("DiscreteActionSpace",),
    fix="Pass critic_network_type=rlrepro.fixes.PearlFactoredQ to SoftActorCritic, or use FactoredSAC with "
    "SharedActionBuffer.",
    chapter="05_large_action_spaces",
    claims=("LA3",),
)
def pearl_space(module, project):
    """Pearl stores the features of all actions twice with every transition, and evaluates its critics on every pair of
    a state in the batch and an action."""
    for call in module.calls("pearl", "DiscreteActionSpace"):
        count = _length(module, module.argument(call, "actions", 0))
        if count is UNKNOWN:
            yield call, "with thousands of actions, each transition stores a large table: print len(actions)", "low"
        elif count >= LARGE:
            yield call, f"each transition stores two tables of {count:,} actions", "high"


def _spaces(module):
    """The sizes of the discrete spaces that the file creates."""
    for package in ("gymnasium", "gym"):
        for call in module.calls(package, "Discrete"):
            yield module.value(module.argument(call, "n", 0))


def _length(module, node):
    """The number of elements of an expression, or UNKNOWN."""
    if isinstance(node, ast.Name) and node.id in module.stores:
        node = module.stores[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return len(node.elts)
    if isinstance(node, ast.ListComp) and len(node.generators) == 1 and not node.generators[0].ifs:
        return _length(module, node.generators[0].iter)
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in ("range", "arange") and len(node.args) == 1:
            count = module.value(node.args[0])
            return count if isinstance(count, int) else UNKNOWN
        if name in ("list", "tuple", "unsqueeze", "tensor") and node.args:
            return _length(module, node.args[0])
    return UNKNOWN


def _is_stored(module, call) -> bool:
    """Whether the result is stored, directly or through a variable."""
    name = module.variable(call)
    for storing in module.methods(*STORING):
        for argument in (*storing.args, *(keyword.value for keyword in storing.keywords)):
            nodes = list(walk(argument))
            if call in nodes or (name and any(isinstance(node, ast.Name) and node.id == name for node in nodes)):
                return True
    return False
