"""Whether a file can run: it finds what it imports from its project, its names are bound somewhere, and its calls of
the project's own functions have the arguments that these require."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

from rlrepro.doctor.ast_index import FUNCTIONS, Module, last_name
from rlrepro.doctor.project import Project
from rlrepro.doctor.signatures import fits
from rlrepro.doctor.usage import is_used

LOCAL = {"agent", "agents", "buffer", "common", "config", "env", "environment", "envs", "memory", "model", "models"}
LOCAL |= {"net", "network", "networks", "util", "utils"}  # modules that no library installs
MOST_IMPORTERS = 100  # of a module that are looked at
TRAINING = re.compile(r"train|learn|fit|updat|optim|backward|run|launch|loop|experiment|worker|Process", re.IGNORECASE)
DYNAMIC = ("globals()", "exec(", "__getattr__")  # code that binds names unseen


def can_run(project: Project, module: Module) -> bool:
    """Whether nothing is evidently missing. Notebooks are taken to run, since magics bind names."""
    if module.path.suffix != ".py":
        return True
    if _fails_at_start(project, module) or not _is_started(project, module):
        return False
    bound = _bound(project, module)
    names = () if bound is None else (node for node in module.nodes[ast.Name] if _is_unbound(module, node, bound))
    wrong = (call for call in module.all_calls if not fits(project, module, call))
    return not any(is_used(project, module, node) for nodes in (names, wrong) for node in nodes)


def _is_unbound(module: Module, node: ast.Name, bound: set[str]) -> bool:
    """Whether a name is bound nowhere. Annotations don't count, as they may never be evaluated."""
    return node.id not in bound and not node.id.startswith("__") and not _is_in_annotation(module, node)


def _is_in_annotation(module: Module, node: ast.AST) -> bool:
    for outer in module.ancestors(node):
        if node in (getattr(outer, "annotation", None), getattr(outer, "returns", None)):
            return True
        node = outer
    return False


def _bound(project: Project, module: Module) -> set[str] | None:
    """The names that are bound anywhere in a file, or None if some are bound unseen."""
    if any(word in module.text for word in DYNAMIC):
        return None
    bound = {*dir(builtins), *module.imports, *module.relative, *module.parameters}
    bound |= {node.id for node in module.nodes[ast.Name] if not isinstance(node.ctx, ast.Load)}
    bound |= {node.name for kind in (*FUNCTIONS, ast.ClassDef) for node in module.nodes[kind]}
    bound |= {node.name for kind in (ast.ExceptHandler, ast.MatchAs, ast.MatchStar) for node in module.nodes[kind]}
    bound |= {node.rest for node in module.nodes[ast.MatchMapping]}
    for node in module.nodes[ast.Global]:
        bound |= {*node.names}
    for node in module.nodes[ast.ImportFrom]:
        if node.names[0].name == "*":
            path = project.file(module.path, node.level, node.module or "")
            names = _bound(project, other) if path and (other := project.read(path)) and other is not module else None
            if names is None:
                return None
            bound |= names
    return bound


def _fails_at_start(project: Project, module: Module) -> bool:
    """Whether a module stops at an import."""
    return any(_misses_import(project, other) for other in _imported_at_start(project, module))


def _is_started(project: Project, module: Module) -> bool:
    """Whether a module that does not stop at an import is where a program may begin, or is imported, directly or not,
    by such a module: a script, a notebook, or what nothing imports. Packages may be used in another project."""
    above = [module]
    for below in above:
        importers = project.importers(below)
        is_package = below.path.name == "__init__.py" and (project.is_installable or not importers)
        if is_package or below.path.suffix != ".py":
            return True
        is_start = not importers or is_script(project, below)
        if is_start and (below is module or not _fails_at_start(project, below)):
            return True
        above += [other for other in importers if other not in above]
        if len(above) > MOST_IMPORTERS:
            return True
    return False


def is_script(project: Project, module: Module) -> bool:
    """Whether a file does more than define when it is run."""
    calls = [call for call in module.all_calls if module.function(call) is module.tree]
    if any(TRAINING.search(last_name(call.func)) for call in calls):
        return True
    names = (node for node in module.nodes[ast.Name] if module.function(node) is module.tree)
    return any(
        project.definition(module, node) is not None
        for node in names
        if not isinstance(module.parents[node], ast.ClassDef)
    )


def _imported_at_start(project: Project, module: Module) -> list[Module]:
    """A module and those of its project that are imported with it, whatever it does."""
    found = [module]
    for importer in found:
        for node in _imports_at_start(importer):
            path = project.file(importer.path, node.level, node.module or "")
            other = project.read(path) if path else None
            if other is not None and other not in found:
                found.append(other)
    return found


def _imports_at_start(module: Module) -> Iterator[ast.ImportFrom]:
    return (node for node in module.tree.body if isinstance(node, ast.ImportFrom))


def _misses_import(project: Project, module: Module) -> bool:
    return any(
        _is_missing(project, module, node) or _lacks(project, module, node) for node in _imports_at_start(module)
    )


def _is_missing(project: Project, module: Module, node: ast.ImportFrom) -> bool:
    """Whether a package of the project lacks a module that is imported from it. A package without other modules may get
    them from a compiler."""
    parts = (node.module or "").split(".")
    above = [base for base in module.path.parents if project.root in (base, *base.parents)]
    targets = [base.joinpath(*parts) for base in (above[node.level - 1 : node.level] if node.level else above)]
    if any(target.is_dir() or any(target.parent.glob(f"{target.name}.*")) for target in targets):
        return False
    is_elsewhere = any(f"/{'/'.join(parts)}".lower() in f"/{path.as_posix()}".lower() for path in project.files)
    if not node.level and len(parts) == 1:
        is_own = parts[0] in LOCAL or _is_own(project, parts[0])
        return is_elsewhere and is_own and not _changes_path(project)
    if not node.level:  # from packages, absolute imports don't see their neighbours
        targets = [base.joinpath(*parts) for base in above if not (base / "__init__.py").exists()]
    return not is_elsewhere and any(len([*t.parent.glob("*.py")]) > 1 for t in targets)


def _is_own(project: Project, name: str) -> bool:
    """Whether a name is that of a file of the project and of no library. Most libraries have no underscore, and a file
    that is named after one imports it."""
    texts = [text for path, text in project.files.items() if "_" in name and path.name == f"{name}.py"]
    return bool(texts) and not any(name in text for text in texts)


def _changes_path(project: Project) -> bool:
    """Whether modules may be found elsewhere than beside the file that imports them."""
    return project.is_installable or any("sys.path" in text or "PYTHONPATH" in text for text in project.files.values())


def _lacks(project: Project, module: Module, node: ast.ImportFrom) -> bool:
    """Whether no module of the project that may be meant binds a name that is imported from it."""
    path = project.file(module.path, node.level, node.module or "")
    if path is None or (not node.level and _is_below_package(path, node.module)):
        return False
    dotted = (node.module or "").replace(".", "/")
    ends = (f"/{dotted}.py", f"/{dotted}/__init__.py") if dotted else ("/__init__.py",)
    others = [(path, project.read(path)) for path in project.files if f"/{path.as_posix()}".endswith(ends)]
    for name in (alias.name for alias in node.names if alias.name != "*"):
        if not any(other is None or _binds(project, path, other, name) for path, other in others):
            return bool(others)
    return False


def _is_below_package(path: Path, dotted: str) -> bool:
    """Whether the folder in which an absolute import was found is a package. Then it may mean another module: torchrl
    has a file tensordict.py that does not hide the library."""
    parts = dotted.count(".") + 1 + (path.name == "__init__.py")
    return (path.parents[parts - 1] / "__init__.py").exists()


def _binds(project: Project, path: Path, module: Module, name: str) -> bool:
    bound = _bound(project, module)
    return bound is None or name in bound or any(path.parent.glob(name)) or any(path.parent.glob(f"{name}.*"))
