"""Judge whether a project runs a piece of code by where the names of functions and classes are mentioned."""

import ast
from collections.abc import Iterator

from rlrepro.doctor.ast_index import FUNCTIONS, Module, last_name
from rlrepro.doctor.project import Project
from rlrepro.doctor.signatures import matches_signature

Place = tuple[Module, ast.AST]


def is_used(project: Project, module: Module, node, used: dict | None = None) -> bool:
    """Whether a piece of code may run: code outside of functions does; a function does if code that runs mentions its
    name, and a method if its class is mentioned as well. Tests don't count."""
    used = {} if used is None else used  # whether a definition is used; False while this is being determined
    for owner in _owners(project, module, node):
        if owner not in used:
            used[owner] = False
            used[owner] = project.configures(owner.name) or any(
                is_used(project, *mention, used) for mention in mentions(project, module, owner)
            )
        if not used[owner]:
            return False
    return True


def mentions(project: Project, module: Module, definition) -> Iterator[Place]:
    """Where the project's code reads the name of a function or class, or has it as a string, outside of tests. The
    `__init__.py` of a project that can be installed also mentions what it imports: its public interface."""
    name = definition.name
    for mod in dict.fromkeys((module, *project.modules_with(name))):
        if mod.is_test:
            continue
        for node in (*mod.nodes[ast.Attribute], *mod.nodes[ast.Name]):
            if (
                last_name(node) == name
                and isinstance(node.ctx, ast.Load)
                and _may_refer_to(project, mod, node, definition)
                and not _is_invalid_call(project, mod, node)
            ):
                yield mod, node
        for node in mod.nodes[ast.Constant]:
            if node.value == name and not _is_export(mod, node):
                yield mod, node
        if mod.path.name == "__init__.py" and name in (*mod.imports, *mod.relative) and project.is_installable:
            yield mod, mod.tree


def _owners(project: Project, module: Module, node) -> Iterator[ast.AST]:
    """The definitions around a node, without those that code outside the project may call."""
    for outer in module.ancestors(node):
        if isinstance(outer, (*FUNCTIONS, ast.ClassDef)) and not outer.decorator_list:
            cls = module.parents[outer]
            inherits = isinstance(cls, ast.ClassDef) and any(
                project.definition(module, base) is None for base in cls.bases
            )
            if not inherits and not outer.name.startswith("__"):
                yield outer


def _may_refer_to(project: Project, module: Module, node, definition) -> bool:
    """Whether a name or attribute may be this function or class, and not another of the same name."""
    target = project.definition(module, node)
    if target is not None:
        return target.node.__class__ is definition.__class__ and target.node.lineno == definition.lineno
    return isinstance(node, ast.Attribute) or node.id in module.imports or bool(module.stars)  # from somewhere unknown


def _is_invalid_call(project: Project, module: Module, node) -> bool:
    """Whether the name is called here with arguments that its definition does not accept."""
    call = module.parents[node]
    return isinstance(call, ast.Call) and call.func is node and not matches_signature(project, module, call)


def _is_export(module: Module, node) -> bool:
    statement = next((outer for outer in module.ancestors(node) if isinstance(outer, ast.Assign)), None)
    return statement is not None and ast.unparse(statement.targets[0]) == "__all__"
