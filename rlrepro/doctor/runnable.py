"""Check whether a file can run: the modules that it imports from its project exist, its names are bound somewhere, and
its calls match the signatures of the project's functions."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

from rlrepro.doctor.ast_index import FUNCTIONS, Module, last_name
from rlrepro.doctor.project import Project
from rlrepro.doctor.signatures import matches_signature
from rlrepro.doctor.usage import is_used

LOCAL = {"agent", "agents", "buffer", "common", "config", "env", "environment", "envs", "memory", "model", "models"}
LOCAL |= {"net", "network", "networks", "util", "utils"}  # modules that no library installs
MAX_IMPORTERS = 100  # of a module that are examined
TRAINING = re.compile(r"train|learn|fit|updat|optim|backward|run|launch|loop|experiment|worker|Process", re.IGNORECASE)
DYNAMIC = ("globals()", "exec(", "__getattr__")  # code that may bind any name


def can_run(project: Project, module: Module) -> bool:
    """Whether nothing is evidently missing. Notebooks are assumed to run, since magics bind names."""
    if module.path.suffix != ".py":
        return True
    if _fails_at_start(project, module) or not _is_started(project, module):
        return False
    bound = _bound(project, module)
    names = () if bound is None else (node for node in module.nodes[ast.Name] if _is_unbound(module, node, bound))
    bad_calls = (call for call in module.all_calls if not matches_signature(project, module, call))
    return not any(is_used(project, module, node) for nodes in (names, bad_calls) for node in nodes)


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
    """The names that are bound anywhere in a file, or None if some can't be seen."""
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
            names = (
                _bound(project, starred) if path and (starred := project.read(path)) and starred is not module else None
            )
            if names is None:
                return None
            bound |= names
    return bound


def _fails_at_start(project: Project, module: Module) -> bool:
    """Whether a module fails at an import."""
    return any(_has_missing_import(project, imported) for imported in _imported_at_start(project, module))


def _is_started(project: Project, module: Module) -> bool:
    """Whether a program may start at this module, or at one that imports it, directly or not, without failing at an
    import. Programs start at scripts, notebooks and modules that nothing imports. Packages may be used elsewhere."""
    queue = [module]
    for current in queue:
        importers = project.importers(current)
        is_package = current.path.name == "__init__.py" and (project.is_installable or not importers)
        if is_package or current.path.suffix != ".py":
            return True
        is_start = not importers or is_script(project, current)
        if is_start and (current is module or not _fails_at_start(project, current)):
            return True
        queue += [importer for importer in importers if importer not in queue]
        if len(queue) > MAX_IMPORTERS:
            return True
    return False


def is_script(project: Project, module: Module) -> bool:
    """Whether running a file does more than define functions and classes."""
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
    """A module and those of its project that its top-level imports load, directly or not."""
    modules = [module]
    for importer in modules:
        for node in _imports_at_start(importer):
            path = project.file(importer.path, node.level, node.module or "")
            imported = project.read(path) if path else None
            if imported is not None and imported not in modules:
                modules.append(imported)
    return modules


def _imports_at_start(module: Module) -> Iterator[ast.ImportFrom]:
    return (node for node in module.tree.body if isinstance(node, ast.ImportFrom))


def _has_missing_import(project: Project, module: Module) -> bool:
    return any(
        _is_missing(project, module, node) or _lacks_name(project, module, node) for node in _imports_at_start(module)
    )


def _is_missing(project: Project, module: Module, node: ast.ImportFrom) -> bool:
    """Whether a package of the project lacks a module that is imported from it. A package without other modules may get
    them from a compiler."""
    parts = (node.module or "").split(".")
    folders = [base for base in module.path.parents if project.root in (base, *base.parents)]
    targets = [base.joinpath(*parts) for base in (folders[node.level - 1 : node.level] if node.level else folders)]
    if any(target.is_dir() or any(target.parent.glob(f"{target.name}.*")) for target in targets):
        return False
    is_elsewhere = any(f"/{'/'.join(parts)}".lower() in f"/{path.as_posix()}".lower() for path in project.files)
    if not node.level and len(parts) == 1:
        is_own = parts[0] in LOCAL or _is_own(project, parts[0])
        return is_elsewhere and is_own and not _changes_path(project)
    if not node.level:  # in packages, absolute imports don't find neighboring modules
        targets = [base.joinpath(*parts) for base in folders if not (base / "__init__.py").exists()]
    return not is_elsewhere and any(len([*target.parent.glob("*.py")]) > 1 for target in targets)


def _is_own(project: Project, name: str) -> bool:
    """Whether a name belongs to a file of the project and not to a library. Most names of libraries have no underscore,
    and a file that is named after a library imports it."""
    texts = [text for path, text in project.files.items() if "_" in name and path.name == f"{name}.py"]
    return bool(texts) and not any(name in text for text in texts)


def _changes_path(project: Project) -> bool:
    """Whether Python may find modules elsewhere than beside the file that imports them."""
    return project.is_installable or any("sys.path" in text or "PYTHONPATH" in text for text in project.files.values())


def _lacks_name(project: Project, module: Module, node: ast.ImportFrom) -> bool:
    """Whether the statement imports a name from the project that none of the modules it may refer to binds."""
    path = project.file(module.path, node.level, node.module or "")
    if path is None or (not node.level and _is_below_package(path, node.module)):
        return False
    dotted = (node.module or "").replace(".", "/")
    suffixes = (f"/{dotted}.py", f"/{dotted}/__init__.py") if dotted else ("/__init__.py",)
    candidates = [(path, project.read(path)) for path in project.files if f"/{path.as_posix()}".endswith(suffixes)]
    for name in (alias.name for alias in node.names if alias.name != "*"):
        if not any(candidate is None or _binds(project, path, candidate, name) for path, candidate in candidates):
            return bool(candidates)
    return False


def _is_below_package(path: Path, dotted: str) -> bool:
    """Whether the folder in which an absolute import was found is a package. Then it may mean another module: torchrl
    has a file tensordict.py that does not hide the library."""
    parts = dotted.count(".") + 1 + (path.name == "__init__.py")
    return (path.parents[parts - 1] / "__init__.py").exists()


def _binds(project: Project, path: Path, module: Module, name: str) -> bool:
    bound = _bound(project, module)
    return bound is None or name in bound or any(path.parent.glob(name)) or any(path.parent.glob(f"{name}.*"))
