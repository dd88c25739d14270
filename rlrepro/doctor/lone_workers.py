"""Evidence that of several processes only one computes: a lock, a branch of one rank, an option that is one by
default."""

import ast
import re
from collections import deque
from collections.abc import Iterator

from rlrepro.doctor.ast_index import COMPREHENSIONS, FUNCTIONS, Module, children, last_name, words_of
from rlrepro.doctor.project import Project

RANKS = {"rank", "local_rank", "global_rank", "worker_id", "process_id", "proc_id"}


def is_locked(module: Module, node: ast.AST) -> bool:
    """Whether a lock is held while the node runs: `with lock:` around it, or acquire() before it and release() after
    it, in the same function."""
    for outer in module.ancestors(node):
        if isinstance(outer, FUNCTIONS):
            break
        if isinstance(outer, ast.With) and any(_is_lock(item.context_expr) for item in outer.items):
            return True
    calls = sorted(module.methods("acquire", "release"), key=lambda call: call.lineno)
    here = [call for call in calls if module.function(call) is module.function(node)]
    before = [call.func.attr for call in here if _is_lock(call.func.value) and call.lineno < node.lineno]
    after = [call.func.attr for call in here if _is_lock(call.func.value) and call.lineno > node.lineno]
    return before[-1:] == ["acquire"] and after[:1] == ["release"]


def walk_all_ranks(node: ast.AST) -> Iterator[ast.AST]:
    """Like ast.walk, but without what runs only in the process of one rank (`if rank == 0:`)."""
    waiting = deque([node])
    while waiting:
        node = waiting.popleft()
        yield node
        of_one = isinstance(node, ast.If) and _is_of_one_rank(node.test)
        waiting += [node.test, *node.orelse] if of_one else children(node)


def is_one_by_default(module: Module, project: Project, number: ast.AST | None) -> bool:
    """Whether a number of processes is 1 in a dictionary of settings, or is a command-line option whose default is 1
    and to which no script or text of the project passes another number."""
    if isinstance(number, ast.Subscript) and isinstance(number.slice, ast.Constant):
        settings = module.stores.get(last_name(number.value))
        items = zip(settings.keys, settings.values, strict=True) if isinstance(settings, ast.Dict) else ()
        return any(module.value(key) == number.slice.value and module.value(value) == 1 for key, value in items)
    if not isinstance(number, ast.Attribute) or not isinstance(number.value, ast.Name | ast.Attribute):
        return False
    defaults = set()
    for option in {number.attr, number.attr.replace("_", "-")}:
        for other in project.modules_with(f"--{option}"):
            options = [call for call in other.methods("add_argument") if _has_option(other, call, option)]
            defaults |= {other.value(other.argument(call, "default")) == 1 for call in options}
    if defaults != {True}:
        return False
    passed = re.compile(rf"--{number.attr.replace('_', '[-_]')}[ =]+(?!1\b)\d")
    return not project.mentions(passed, module.path)


def _has_option(module: Module, call: ast.Call, option: str) -> bool:
    return any(module.value(argument) == f"--{option}" for argument in call.args)


def number_of_iterations(module: Module, loop: ast.AST) -> ast.AST | None:
    """The N of a loop over range(N) or range(0, N)."""
    loops = loop.generators if isinstance(loop, COMPREHENSIONS) else [loop]
    over = getattr(loops[0], "iter", None) if len(loops) == 1 else None
    if not isinstance(over, ast.Call) or last_name(over.func) != "range" or not 1 <= len(over.args) <= 2:
        return None
    return over.args[-1] if len(over.args) == 1 or module.value(over.args[0]) == 0 else None


def _is_lock(node: ast.AST) -> bool:
    return bool({"lock", "mutex"} & words_of(ast.unparse(node)))


def _is_of_one_rank(test: ast.AST) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and last_name(test.left) in RANKS
        and isinstance(test.comparators[0], ast.Constant)
    )
