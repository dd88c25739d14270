"""What goes wrong with large discrete action spaces."""

import ast

from rlrepro.doctor.ast_index import UNKNOWN
from rlrepro.doctor.finding import rule

LARGE = 1000  # actions from which on a table of them in each transition is felt
STORING = ("extend", "add", "push", "append", "store", "set_at")


@rule(
    "LA001",
    "GymEnv codes a large discrete space as one-hot vectors",
    words=("GymEnv", "GymWrapper"),
    fix="categorical_action_encoding=True as an argument here; an action is an index then, so see that what reads it "
    "takes one",
    chapter="05_large_action_spaces",
    claims=("LA2",),
)
def one_hot_environment(module, project):
    """GymEnv's default is a one-hot vector of int64: eight bytes for every action there is, in each transition."""
    largest = max((n for n in _spaces(module) if n is not UNKNOWN), default=0)
    if largest < LARGE:
        return
    for call in module.calls("torchrl", "GymEnv", "GymWrapper"):
        if not module.spreads(call) and module.argument(call, "categorical_action_encoding") is None:
            yield call, f"an action of {largest:,} is stored as {8 * largest:,} bytes, one-hot", "high"


@rule(
    "LA002",
    "one-hot vectors of a large space are stored",
    words=("one_hot",),
    fix="Store the index; make the one-hot vector of a batch, or better a table's rows, when they are needed.",
    chapter="05_large_action_spaces",
    claims=("LA1", "LA2"),
)
def one_hot_stored(module, project):
    """`F.one_hot` gives eight bytes for every action there is; in a buffer each transition holds them."""
    for call in module.calls("torch", "one_hot"):
        count = module.value(module.argument(call, "num_classes", 1))
        if isinstance(count, int) and count >= LARGE and _is_stored(module, call):
            yield call, f"each stored action takes {8 * count:,} bytes", "high"


@rule(
    "LA003",
    "a large action space in Pearl",
    words=("DiscreteActionSpace",),
    fix="SoftActorCritic(..., critic_network_type=rlrepro.fixes.PearlFactoredQ), or FactoredSAC, SharedActionBuffer",
    chapter="05_large_action_spaces",
    claims=("LA3",),
)
def pearl_space(module, project):
    """Pearl stores the features of all actions with every transition, twice, and sends every state of a batch through
    the critics together with every action."""
    for call in module.calls("pearl", "DiscreteActionSpace"):
        count = _length(module, module.argument(call, "actions", 0))
        if count is UNKNOWN:
            yield call, "with thousands of actions each transition holds a table of them: print len(actions)", "low"
        elif count >= LARGE:
            yield call, f"each transition holds two tables of {count:,} actions", "high"


def _spaces(module):
    """Sizes of the discrete spaces that are made in the text."""
    for package in ("gymnasium", "gym"):
        for call in module.calls(package, "Discrete"):
            yield module.value(module.argument(call, "n", 0))


def _length(module, node):
    """How many elements an expression has, where that can be seen."""
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
    """Whether the result is given, now or under a name, to what stores it."""
    name = module.variable(call)
    for storing in module.methods(*STORING):
        for argument in (*storing.args, *(keyword.value for keyword in storing.keywords)):
            inside = list(ast.walk(argument))
            if call in inside or (name and any(isinstance(each, ast.Name) and each.id == name for each in inside)):
                return True
    return False
