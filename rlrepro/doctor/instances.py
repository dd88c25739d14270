"""The classes of the project that objects are instances of: variables, attributes of self, elements of lists, and what
a call passes on."""

import ast
from collections.abc import Iterator

from rlrepro.doctor.ast_index import COMPREHENSIONS, FUNCTIONS, Module
from rlrepro.doctor.minibatches import without_views
from rlrepro.doctor.project import Definition, Project


def class_of(module: Module, project: Project, node: ast.AST | None) -> Definition | None:
    """The class of the project that an expression is an instance of, judged by the call that creates the object."""
    call = without_views(_assigned(module, node))
    target = project.definition(module, call.func) if isinstance(call, ast.Call) else None
    return target if target is not None and isinstance(target.node, ast.ClassDef) else None


def passed_classes(module: Module, project: Project, call: ast.Call) -> Iterator[Definition]:
    """The classes of the objects that a call passes, also in `args=(agent, buffer)` and `kwargs={"agent": agent}`."""
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        value = _assigned(module, argument)
        elements = value.elts if isinstance(value, ast.Tuple | ast.List) else [argument]
        elements = value.values if isinstance(value, ast.Dict) else elements
        yield from filter(None, (class_of(module, project, element) for element in elements))


def passed_arguments(module: Module, project: Project, node: ast.AST) -> Iterator[tuple[Module, ast.expr]]:
    """What calls in the project pass for a parameter of a function or class, or for one that `__init__` keeps as this
    attribute, with their modules."""
    parameter = _assigned(module, node) if isinstance(node, ast.Attribute) else node
    function = module.function(parameter)
    if not isinstance(parameter, ast.Name) or not isinstance(function, FUNCTIONS):
        return
    outer = module.parents[function]
    called = outer if isinstance(outer, ast.ClassDef) and function.name == "__init__" else function
    names = [argument.arg for argument in function.args.args[called is outer :]]
    if parameter.id not in names or module.parents[called] is not module.tree:
        return
    for caller in (module, *project.importers(module)):
        for call in caller.all_calls if called.name in caller.text else ():
            target = project.definition(caller, call.func)
            argument = caller.argument(call, parameter.id, names.index(parameter.id))
            if target is not None and target.node is called and argument is not None:
                yield caller, argument


def _assigned(module: Module, node: ast.AST | None) -> ast.AST | None:
    """What a variable or an attribute of self was assigned; for the variable of a loop over a list, an element."""
    if isinstance(node, ast.Name):
        return module.stores.get(node.id) or _element(module, node)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        assignments = (
            assignment.value
            for assignment in module.nodes[ast.Assign]
            if any(ast.unparse(target) == ast.unparse(node) for target in assignment.targets)
            and module.class_around(assignment) is module.class_around(node)
        )
        return next(assignments, None)
    return node


def _element(module: Module, variable: ast.Name) -> ast.AST | None:
    for loop in module.loops(variable):
        for part in loop.generators if isinstance(loop, COMPREHENSIONS) else [loop]:
            if ast.unparse(getattr(part, "target", part)) == variable.id:
                values = _assigned(module, part.iter)
                first = values.elts[:1] if isinstance(values, ast.List | ast.Tuple) else []
                return values.elt if isinstance(values, ast.ListComp) else next(iter(first), None)
    return None
