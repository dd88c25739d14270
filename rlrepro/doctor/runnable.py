"""Whether a file can run: it finds what it imports from its project, and its names are bound somewhere."""

import ast
import builtins

from rlrepro.doctor.ast_index import FUNCTIONS, Module
from rlrepro.doctor.project import Project
from rlrepro.doctor.usage import is_used

DYNAMIC = ("globals()", "exec(", "__getattr__")  # code that binds names unseen


def can_run(project: Project, module: Module) -> bool:
    """Whether nothing is evidently missing. Notebooks are taken to run, since magics bind names."""
    if module.path.suffix != ".py" or any(word in module.text for word in DYNAMIC):
        return True
    if any(isinstance(node, ast.ImportFrom) and _is_missing(project, module, node) for node in module.tree.body):
        return False
    bound = _bound(project, module)
    if bound is None:
        return True
    unbound = (node for node in module.nodes[ast.Name] if node.id not in bound and not node.id.startswith("__"))
    return not any(is_used(project, module, node) for node in unbound)


def _bound(project: Project, module: Module) -> set[str] | None:
    """The names that are bound anywhere in a file, or None if it imports everything from an unknown module."""
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


def _is_missing(project: Project, module: Module, node: ast.ImportFrom) -> bool:
    """Whether a package of the project lacks a module that is imported from it. A package without other modules may get
    them from a compiler."""
    parts = (node.module or "").split(".")
    above = [base for base in module.path.parents if project.root in (base, *base.parents)]
    targets = [base.joinpath(*parts) for base in (above[node.level - 1 : node.level] if node.level else above)]
    if any(target.is_dir() or any(target.parent.glob(f"{target.name}.*")) for target in targets):
        return False
    is_elsewhere = any(f"/{'/'.join(parts)}" in path.as_posix() for path in project.files)
    is_inner = node.level or len(parts) > 1
    return bool(is_inner) and not is_elsewhere and any(len([*t.parent.glob("*.py")]) > 1 for t in targets)
