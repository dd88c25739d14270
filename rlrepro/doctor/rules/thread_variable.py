"""A rule for an environment variable that has no effect on threads."""

import ast

from rlrepro.doctor.edits import replaced
from rlrepro.doctor.finding import rule
from rlrepro.doctor.thread_limits import is_limited

NAME = "TORCH_NUM_THREADS"
SETTERS = ("setdefault", "putenv", "setenv")


def _read_by_torch(module, node):
    if isinstance(node, ast.keyword):
        return [replaced(node, f"OMP_NUM_THREADS={ast.unparse(node.value)}")]
    return [replaced(node, '"OMP_NUM_THREADS"')]


@rule(
    "PT005",
    f"{NAME} is set, which nothing reads",
    words=(NAME,),
    fix="Set OMP_NUM_THREADS before torch is imported, or call torch.set_num_threads.",
    chapter="07_your_own_code",
    autofix=_read_by_torch,
    fix_when_low=True,
)
def unread_variable(module, project):
    """torch takes its number of threads from OMP_NUM_THREADS or MKL_NUM_THREADS. Neither torch nor OpenMP reads
    TORCH_NUM_THREADS, so each process still starts a thread per core."""
    names = [node for node in module.nodes[ast.Constant] if node.value == NAME]
    options = [node for node in module.nodes[ast.keyword] if node.arg == NAME]
    if is_limited(module, project) or not all(_is_set(module, node) for node in names):
        return  # the program may read it itself
    for node in (*names, *options):
        yield node, f"nothing reads {NAME}: torch still starts a thread per core", "medium"


def _is_set(module, name: ast.Constant) -> bool:
    """Whether the variable with this name is assigned, in os.environ or in a dict."""
    parent = module.parents[name]
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Store)
    if isinstance(parent, ast.Call):
        return getattr(parent.func, "attr", "") in SETTERS
    return isinstance(parent, ast.Dict) and name in parent.keys
