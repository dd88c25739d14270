"""The calls that start processes: how many they start, how, and what each process runs."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rlrepro.doctor.ast_index import FUNCTIONS, Module, last_name, walk
from rlrepro.doctor.instances import class_of
from rlrepro.doctor.lone_workers import is_one_by_default, number_of_iterations
from rlrepro.doctor.project import Definition, Project

PACKAGES = ("multiprocessing", "concurrent", "torch", "subprocess", "pathos", "multiprocess")
POOLS = ("Pool", "ProcessPoolExecutor")
SPAWNS = ("spawn", "start_processes")
SUBMITS = {"map", "imap", "imap_unordered", "starmap", "map_async", "starmap_async", "apply", "apply_async", "submit"}
WAITS = ("wait", "communicate", "join")
METHOD = re.compile(r"(?:set_start_method|get_context)\(\s*(?:method\s*=\s*)?['\"](\w+)['\"]")


@dataclass(frozen=True)
class Start:
    """A call that starts processes. `target` is the function that they run, or None if it is unknown or outside the
    project; `method` is "fork", "spawn" or "forkserver"."""

    call: ast.Call
    package: str
    several: bool
    target: Definition | None
    method: str


def process_starts(module: Module, project: Project) -> Iterator[Start]:
    """The calls in a module that start processes; a pool appears once per function that is submitted to it."""
    methods = METHOD.findall(module.text)
    method = methods[0] if methods else "fork"
    contexts = [call for call in module.all_calls if (module.name(call.func) or "").endswith("get_context")]
    context_names = {module.variable(call) for call in contexts} - {None}
    for call in module.all_calls:
        package, name = _process_function(module, call)
        if not name and isinstance(call.func, ast.Attribute):  # of a multiprocessing context
            owner = call.func.value
            if owner in contexts or (context_names and ast.unparse(owner) in context_names):
                package, name = "multiprocessing", call.func.attr
        if name in POOLS:
            several = not _is_one(
                module, project, module.argument(call, "processes" if name == "Pool" else "max_workers", 0)
            )
            for target in _submitted(module, call) or [None]:
                yield Start(call, package, several, _target(module, project, target), method)
        elif name in SPAWNS and package == "torch":
            several = not _is_one(module, project, module.argument(call, "nprocs", 2))
            yield Start(call, package, several, _target(module, project, module.argument(call, "fn", 0)), "spawn")
        elif name == "Process":
            target = _target(module, project, module.argument(call, "target", 1))
            yield Start(call, package, _overlaps(module, project, call), target, method)
        elif name == "Popen" and package == "subprocess":
            yield Start(call, package, _overlaps(module, project, call), _script(module, project, call), "spawn")
        elif (run := _run_of_process(module, project, call)) is not None:
            yield Start(call, "multiprocessing", _is_repeated(module, project, call), run, method)


def _process_function(module: Module, call: ast.Call) -> tuple[str, str]:
    """(package, name) of the called function if it starts processes, otherwise ("", "")."""
    full_name = module.name(call.func)
    if full_name is not None:
        package, name = full_name.split(".")[0], full_name.split(".")[-1]
        is_known = package in PACKAGES and (package != "torch" or "multiprocessing" in full_name)
        return (package, name) if is_known else ("", "")
    return "", ""


def _is_repeated(module: Module, project: Project, call: ast.Call) -> bool:
    """Whether the call is in a loop with possibly more than one iteration, unlike one over range(1)."""
    counts = [number_of_iterations(module, loop) for loop in module.loops(call)]
    return bool(counts) and not any(_is_one(module, project, count) for count in counts)


def _is_one(module: Module, project: Project, count: ast.AST | None) -> bool:
    return module.value(count) == 1 or is_one_by_default(module, project, count)


def _overlaps(module: Module, project: Project, call: ast.Call) -> bool:
    return _is_repeated(module, project, call) and not _is_waited_for(module, call)


def _is_waited_for(module: Module, start: ast.Call) -> bool:
    """Whether the loop around the call always waits for this process before it starts another."""
    owner = module.parents.get(start)
    if isinstance(owner, ast.NamedExpr):
        owner = module.parents[owner]
    if isinstance(owner, ast.withitem) or (isinstance(owner, ast.Attribute) and owner.attr in WAITS):
        return True
    name, ancestors = module.variable(start), {*module.ancestors(start)}
    first_wait = next((wait for wait in _waits(module, name) if _position(wait) > _position(start)), None)
    starts = (call for call in module.all_calls if _process_function(module, call)[1] in ("Popen", "Process"))
    return first_wait is not None and not (
        module.loops(first_wait)[:1] != module.loops(start)[:1]
        or any(_may_skip(outer, first_wait, module) for outer in module.ancestors(first_wait) if outer not in ancestors)
        or any(_position(start) < _position(other) < _position(first_wait) for other in starts)
    )


def _waits(module: Module, name: str | None) -> list[ast.Call]:
    """The calls that wait without a timeout for the process of that name, in source order."""
    waits = [
        call
        for call in module.methods(*WAITS)
        if ast.unparse(call.func.value) == name and not call.args and module.argument(call, "timeout") is None
    ]
    return sorted(waits, key=_position)


def _may_skip(outer: ast.AST, inner: ast.AST, module: Module) -> bool:
    """Whether this statement may skip a node inside it."""
    is_condition = isinstance(outer, ast.If) and (outer.test is inner or module.is_within(inner, outer.test))
    return isinstance(outer, ast.If | ast.IfExp | ast.ExceptHandler) and not is_condition


def _position(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _submitted(module: Module, pool: ast.Call) -> list[ast.expr]:
    """The functions that are submitted to a pool, anywhere in the module under the pool's name."""
    parent = module.parents.get(pool)
    if isinstance(parent, ast.withitem) and parent.optional_vars is not None:
        name = ast.unparse(parent.optional_vars)
    else:
        name = module.variable(pool)
    is_attribute = "." in (name or "")  # usable in any method; a variable only in its function
    return [
        call.args[0]
        for call in module.methods(*SUBMITS)
        if call.args
        and (call.func.value is pool or (name and ast.unparse(call.func.value) == name))
        and (is_attribute or module.function(call) is module.function(pool))
    ]


def _target(module: Module, project: Project, node) -> Definition | None:
    """The function that an expression refers to: a name, a method, a partial, or a wrapping call."""
    if isinstance(node, ast.Lambda):
        return Definition(module, node)
    if isinstance(node, ast.IfExp):
        return _target(module, project, node.body) or _target(module, project, node.orelse)
    if isinstance(node, ast.Call) and node.args:
        return _target(module, project, node.args[0])
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        cls = module.class_around(node)
        return project.method(Definition(module, cls), node.attr) if cls else None
    if isinstance(node, ast.Attribute) and (cls := class_of(module, project, node.value)):
        return project.method(cls, node.attr)
    definition = project.definition(module, node) if node is not None else None
    if definition is not None and isinstance(definition.node, FUNCTIONS):
        return definition
    if isinstance(node, ast.Name) and isinstance(stored := module.stores.get(node.id), ast.Call):
        return _target(module, project, stored)
    return None


def _run_of_process(module: Module, project: Project, call: ast.Call) -> Definition | None:
    """The method `run` of a class in the project that inherits from Process."""
    if not last_name(call.func)[:1].isupper():
        return None
    cls = project.definition(module, call.func)
    if cls is None or not isinstance(cls.node, ast.ClassDef):
        return None
    bases = [cls.module.name(base) or ast.unparse(base) for base in cls.node.bases]
    is_process = any(base.split(".")[-1] == "Process" for base in bases)
    return project.method(cls, "run") if is_process else None


def _script(module: Module, project: Project, call: ast.Call) -> Definition | None:
    """The project's Python script that a command runs."""
    command = call.args[0] if call.args else None
    if isinstance(command, ast.Name):
        command = module.stores.get(command.id)
    texts = [node.value for node in walk(command) if isinstance(node, ast.Constant)] if command else []
    for word in " ".join(text for text in texts if isinstance(text, str)).split():
        if word.endswith(".py"):
            for folder in (module.path.parent, project.root):
                if (folder / word).is_file() and (script := project.read(folder / word)) is not None:
                    return Definition(script, script.tree)
    return None
