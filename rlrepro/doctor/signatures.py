"""Whether calls of a project's own functions, classes and methods have the arguments that these require."""

import ast
import re
from inspect import Parameter, Signature

from rlrepro.doctor.ast_index import FUNCTIONS, Module
from rlrepro.doctor.project import Project


def fits(project: Project, module: Module, call: ast.Call) -> bool:
    """Whether a function, class or method of the project accepts the arguments of a call, as far as both can be
    seen."""
    if isinstance(call.func, ast.Attribute):
        return _has_method(project, module, call)
    if not isinstance(call.func, ast.Name) or call.func.id in module.parameters | {*module.stores}:
        return True
    target = project.definition(module, call.func)
    if target is None or target.module.parents.get(target.node) is not target.module.tree or target.node.decorator_list:
        return True
    function = target.node
    if isinstance(function, ast.ClassDef):
        own = {node.name: node for node in function.body if isinstance(node, FUNCTIONS)}
        if function.keywords or "__new__" in own or "__init__" not in own:
            return True
        function = own["__init__"]
    namesakes = [node for kind in (*FUNCTIONS, ast.ClassDef) for node in target.module.nodes[kind]]
    if function.decorator_list or [node.name for node in namesakes].count(target.node.name) > 1:
        return True
    return _accepts(function.args, call, is_method=function is not target.node)


def _has_method(project: Project, module: Module, call: ast.Call) -> bool:
    """Whether the object of a method call has that method, with these parameters. Only for a variable that is assigned
    once, to an instance of a class whose bases are all in the project."""
    owner = call.func.value
    created = module.stores.get(owner.id) if isinstance(owner, ast.Name) else None
    if not isinstance(created, ast.Call) or module.function(created) is not module.function(call):
        return True
    stored = [node for node in module.nodes[ast.Name] if node.id == owner.id and not isinstance(node.ctx, ast.Load)]
    cls = project.definition(module, created.func)
    if len(stored) != 1 or cls is None or not isinstance(cls.node, ast.ClassDef):
        return True
    line = project.ancestry(cls)
    bases = [base for above in line for base in above.node.bases if ast.unparse(base) != "object"]
    if len(bases) != len(line) - 1 or any(above.node.keywords or above.node.decorator_list for above in line):
        return True
    method = project.method(cls, call.func.attr)
    if method is None:
        return any(re.search(rf"\b{call.func.attr} =|attr", ast.unparse(above.node)) for above in line)
    return bool(method.node.decorator_list) or _accepts(method.node.args, call, is_method=True)


def _accepts(declared: ast.arguments, call: ast.Call, *, is_method: bool) -> bool:
    """Whether a call gives all parameters without a default, and no unknown ones."""
    ordered = [*declared.posonlyargs, *declared.args]
    optional = {*ordered[len(ordered) - len(declared.defaults) :]}
    optional |= {each for each, default in zip(declared.kwonlyargs, declared.kw_defaults, strict=True) if default}
    kinds = [
        (Parameter.POSITIONAL_ONLY, declared.posonlyargs),
        (Parameter.POSITIONAL_OR_KEYWORD, declared.args),
        (Parameter.VAR_POSITIONAL, filter(None, [declared.vararg])),
        (Parameter.KEYWORD_ONLY, declared.kwonlyargs),
        (Parameter.VAR_KEYWORD, filter(None, [declared.kwarg])),
    ]
    parameters = [
        Parameter(each.arg, kind, default=None if each in optional else Parameter.empty)
        for kind, of_kind in kinds
        for each in of_kind
    ]
    given = {keyword.arg: None for keyword in call.keywords if keyword.arg}
    is_spread = any(isinstance(argument, ast.Starred) for argument in call.args)
    bound = is_method and bool(ordered)  # *args may take the object as well
    try:
        signature = Signature(parameters[bound:])
        if is_spread or len(given) < len(call.keywords):  # *arguments or **options may have the rest
            signature.bind_partial(*([] if is_spread else call.args), **given)
        else:
            signature.bind(*call.args, **given)
    except TypeError:
        return False
    except ValueError:  # such as two parameters of one name
        return True
    return True
