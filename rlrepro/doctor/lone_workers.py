"""Evidence that only one of several processes computes: a lock, a branch for one rank, or an option that is 1 by
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
    local_calls = [call for call in calls if module.function(call) is module.function(node)]
    before = [call.func.attr for call in local_calls if _is_lock(call.func.value) and call.lineno < node.lineno]
    after = [call.func.attr for call in local_calls if _is_lock(call.func.value) and call.lineno > node.lineno]
    return before[-1:] == ["acquire"] and after[:1] == ["release"]


def walk_all_ranks(node: ast.AST) -> Iterator[ast.AST]:
    """Like ast.walk, but without code that runs only in the process of one rank (`if rank == 0:`)."""
    queue = deque([node])
    while queue:
        node = queue.popleft()
        yield node
        is_single_rank = isinstance(node, ast.If) and _is_of_one_rank(node.test)
        queue += [node.test, *node.orelse] if is_single_rank else children(node)


def is_one_by_default(module: Module, project: Project, count: ast.AST | None) -> bool:
    """Whether a number of processes is 1 in a dictionary of settings, or is a command-line option whose default is 1
    and to which no script or text of the project passes another number."""
    if isinstance(count, ast.Subscript) and isinstance(count.slice, ast.Constant):
        settings = module.stores.get(last_name(count.value))
        items = zip(settings.keys, settings.values, strict=True) if isinstance(settings, ast.Dict) else ()
        return any(module.value(key) == count.slice.value and module.value(value) == 1 for key, value in items)
    if not isinstance(count, ast.Attribute) or not isinstance(count.value, ast.Name | ast.Attribute):
        return False
    defaults = set()
    for option in {count.attr, count.attr.replace("_", "-")}:
        for mod in project.modules_with(f"--{option}"):
            options = [call for call in mod.methods("add_argument") if _has_option(mod, call, option)]
            defaults |= {mod.value(mod.argument(call, "default")) == 1 for call in options}
    if defaults != {True}:
        return False
    option_pattern = re.compile(rf"--{count.attr.replace('_', '[-_]')}[ =]+(?!1\b)\d")
    return not project.mentions(option_pattern, module.path)


def _has_option(module: Module, call: ast.Call, option: str) -> bool:
    return any(module.value(argument) == f"--{option}" for argument in call.args)


def number_of_iterations(module: Module, loop: ast.AST) -> ast.AST | None:
    """The N of a loop over range(N) or range(0, N)."""
    loops = loop.generators if isinstance(loop, COMPREHENSIONS) else [loop]
    iterable = getattr(loops[0], "iter", None) if len(loops) == 1 else None
    if not isinstance(iterable, ast.Call) or last_name(iterable.func) != "range" or not 1 <= len(iterable.args) <= 2:
        return None
    return iterable.args[-1] if len(iterable.args) == 1 or module.value(iterable.args[0]) == 0 else None


def _is_lock(node: ast.AST) -> bool:
    return bool({"lock", "mutex"} & words_of(ast.unparse(node)))


def _is_of_one_rank(test: ast.AST) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and last_name(test.left) in RANKS
        and isinstance(test.comparators[0], ast.Constant)
    )
