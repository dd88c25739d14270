"""Check calls of a project's own functions, classes and methods against their signatures."""

import ast
import re
from inspect import Parameter, Signature

from rlrepro.doctor.ast_index import FUNCTIONS, Module
from rlrepro.doctor.project import Project


def matches_signature(project: Project, module: Module, call: ast.Call) -> bool:
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
        methods = {node.name: node for node in function.body if isinstance(node, FUNCTIONS)}
        if function.keywords or "__new__" in methods or "__init__" not in methods:
            return True
        function = methods["__init__"]
    namesakes = [node for kind in (*FUNCTIONS, ast.ClassDef) for node in target.module.nodes[kind]]
    if function.decorator_list or [node.name for node in namesakes].count(target.node.name) > 1:
        return True
    return _accepts(function.args, call, is_method=function is not target.node)


def _has_method(project: Project, module: Module, call: ast.Call) -> bool:
    """Whether the object of a method call has that method, with these parameters. Only for a variable that is assigned
    once, to an instance of a class whose bases are all in the project."""
    owner = call.func.value
    creation = module.stores.get(owner.id) if isinstance(owner, ast.Name) else None
    if not isinstance(creation, ast.Call) or module.function(creation) is not module.function(call):
        return True
    stores = [node for node in module.nodes[ast.Name] if node.id == owner.id and not isinstance(node.ctx, ast.Load)]
    cls = project.definition(module, creation.func)
    if len(stores) != 1 or cls is None or not isinstance(cls.node, ast.ClassDef):
        return True
    mro = project.ancestry(cls)
    bases = [base for ancestor in mro for base in ancestor.node.bases if ast.unparse(base) != "object"]
    if len(bases) != len(mro) - 1 or any(ancestor.node.keywords or ancestor.node.decorator_list for ancestor in mro):
        return True
    method = project.method(cls, call.func.attr)
    if method is None:
        return any(re.search(rf"\b{call.func.attr} =|attr", ast.unparse(ancestor.node)) for ancestor in mro)
    return bool(method.node.decorator_list) or _accepts(method.node.args, call, is_method=True)


def _accepts(declared: ast.arguments, call: ast.Call, *, is_method: bool) -> bool:
    """Whether a call passes all parameters without a default, and no unknown ones."""
    ordered = [*declared.posonlyargs, *declared.args]
    optional = {*ordered[len(ordered) - len(declared.defaults) :]}
    optional |= {arg for arg, default in zip(declared.kwonlyargs, declared.kw_defaults, strict=True) if default}
    kinds = [
        (Parameter.POSITIONAL_ONLY, declared.posonlyargs),
        (Parameter.POSITIONAL_OR_KEYWORD, declared.args),
        (Parameter.VAR_POSITIONAL, filter(None, [declared.vararg])),
        (Parameter.KEYWORD_ONLY, declared.kwonlyargs),
        (Parameter.VAR_KEYWORD, filter(None, [declared.kwarg])),
    ]
    parameters = [
        Parameter(arg.arg, kind, default=None if arg in optional else Parameter.empty)
        for kind, of_kind in kinds
        for arg in of_kind
    ]
    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg}
    has_star = any(isinstance(argument, ast.Starred) for argument in call.args)
    skips_self = is_method and bool(ordered)  # *args may take the object as well
    try:
        signature = Signature(parameters[skips_self:])
        if has_star or len(keywords) < len(call.keywords):  # *arguments or **options may pass the rest
            signature.bind_partial(*([] if has_star else call.args), **keywords)
        else:
            signature.bind(*call.args, **keywords)
    except TypeError:
        return False
    except ValueError:  # such as two parameters of one name
        return True
    return True
