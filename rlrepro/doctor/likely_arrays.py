"""Which lists are likely to hold arrays: weaker evidence than in `arrays`, also from other functions and modules."""

import ast
import re
from collections.abc import Iterator

from rlrepro.doctor.arrays import (
    CONVOLUTION,
    OBSERVATION,
    SCALAR,
    SHORT,
    TRANSPOSED,
    appends_to,
    assigned_name,
    assigned_values,
    home_of,
    is_array,
    is_assigned_tensor,
    is_positional,
    is_text,
    is_transposed,
    short_text,
)
from rlrepro.doctor.ast_index import FUNCTIONS, Module, last_name, walk, words_of
from rlrepro.doctor.project import Definition, Project

# Names of a list with the observation of each agent, or of each environment.
OF_EACH = re.compile(r"obss$|obs_n$|(obs|observations?|states?)_(list|lst)$")
READS = ("reset", "get_obs", "get_state", "get_observation", "current_state")  # methods of environments
FILLS = ("append", "extend")
MOST = 20  # calls of a function, and values of a variable, that are looked at
DEPTH = 3  # lists in lists; callers are only looked at from the top


def likely_arrays(module: Module, project: Project, node, depth: int = DEPTH) -> str | None:
    """The text of an expression if it is likely to be a list of arrays, otherwise None."""
    if isinstance(node, ast.Call) and last_name(node.func) == "list" and len(node.args) == 1:
        node = node.args[0]
    if not depth:
        return None
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        name = assigned_name(module, node)
        is_part = is_positional(node.elt) and (_is_observation(name) or name in SHORT)
        is_copy = ast.unparse(node.elt) == ast.unparse(node.generators[0].target)
        copied = is_copy and likely_arrays(module, project, node.generators[0].iter, depth - 1)
        is_whole = not is_positional(node.elt) and _is_likely_array(module, node.elt)
        return short_text(node) if is_part or copied or is_whole else None
    if isinstance(node, ast.List) and len(node.elts) == 1 and isinstance(node.elts[0], ast.Name):
        images = any(CONVOLUTION.search(other.text) for other in project.imported_by(module))
        return short_text(node) if images and is_array(module, node.elts[0]) else None
    if isinstance(node, ast.Subscript) and is_text(node.slice):
        is_filled = _is_observation(node.slice.value) and _fills_key(module, project, node.slice.value)
        return short_text(node) if is_filled else None
    if isinstance(node, ast.Name | ast.Attribute):
        is_filled = _is_filled(module, project, node, depth) or _is_passed(module, project, node, depth)
        return short_text(node) if is_filled else None
    return None


def _is_observation(name: str) -> bool:
    """Whether a name is that of one or several observations, as state_batch or obs_n."""
    words = words_of(name)
    return bool(words & (OBSERVATION | {"arrays", "board", "boards"})) and not words & (SCALAR - {"batch", "n"})


def _is_likely_array(module: Module, node) -> bool:
    if isinstance(node, ast.Call):
        reads = last_name(node.func) in READS and not (node.args or node.keywords)
        return reads or is_array(module, node)
    if isinstance(node, ast.Subscript) and not is_text(node.slice):
        return _is_observation(last_name(node.value)) or last_name(node.value) in SHORT
    if isinstance(node, ast.Name | ast.Attribute) and _is_observation(last_name(node)):
        return not is_assigned_tensor(module, node)
    return is_array(module, node)


def _is_filled(module: Module, project: Project, node, depth: int) -> bool:
    """Whether something in reach fills a variable with arrays, and nothing makes an array or a tensor of it."""
    name, values, added = ast.unparse(node), [], {}
    for other in walk(home_of(module, node)):
        if isinstance(other, ast.Assign) and not module.is_within(node, other):  # not states = torch.tensor(states)
            values += [(other, value) for value in assigned_values(module, project, other, name, calls=0)]
        elif appends_to(other, name) or _extends(other, name):
            added[ast.unparse(other)] = other
    if any(_is_made_by_library(module, value) for _, value in values):
        return False
    if isinstance(node, ast.Attribute) and _is_observation(node.attr.rstrip("_")):
        owner = module.stores.get(ast.unparse(node.value))  # batch.state, where batch = memory.sample(64)
        if isinstance(owner, ast.Call) and _is_sample(module, project, owner, None, depth):
            return True
    return any(_adds_arrays(module, project, call, depth) for call in [*added.values()][:MOST]) or any(
        _gives_arrays(module, project, *given, name, depth) for given in values[:MOST]
    )


def _adds_arrays(module: Module, project: Project, call: ast.Call, depth: int) -> bool:
    """Whether states.append(...) adds an array or a list of arrays, or states.extend(...) several arrays."""
    added = call.args[0]
    is_list = isinstance(added, ast.Name | ast.ListComp | ast.GeneratorExp)
    if is_list and likely_arrays(module, project, added, depth - 1):
        return True
    if (
        isinstance(added, ast.Call)
        and last_name(added.func) == "map"
        and isinstance((*added.args, None)[0], ast.Lambda)
    ):
        return _is_likely_array(module, added.args[0].body)
    return call.func.attr == "append" and _is_likely_array(module, added)


def _gives_arrays(module: Module, project: Project, assignment: ast.Assign, value, name: str, depth: int) -> bool:
    """Whether a value that an assignment gives to a variable is a list of arrays."""
    if value is TRANSPOSED:
        return _is_observation(name.split(".")[-1])
    if value is assignment.value and isinstance(value, ast.Call):
        target = assignment.targets[0]
        names = [ast.unparse(part) for part in target.elts] if isinstance(target, ast.Tuple) else []
        return name in names and _is_sample(module, project, value, names.index(name), depth)
    return likely_arrays(module, project, value, depth - 1) is not None


def _is_made_by_library(module: Module, value) -> bool:
    """np.array(...), torch.cat(...).to(device)"""
    calls = (inner for inner in walk(value) if isinstance(inner, ast.Call)) if isinstance(value, ast.Call) else ()
    return any((module.name(call.func) or "").split(".")[0] in ("torch", "numpy") for call in calls)


def _extends(node, name: str) -> bool:
    is_extend = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "extend"
    return is_extend and len(node.args) == 1 and ast.unparse(node.func.value) == name


def _is_sample(module: Module, project: Project, call: ast.Call, position: int | None, depth: int) -> bool:
    """Whether a method of that name returns a list of arrays, at a position of its tuple or in a named tuple."""
    if not isinstance(call.func, ast.Attribute) or module.name(call.func):
        return False
    methods = (project.method(cls, call.func.attr) for cls in _classes_used(module, project))
    return any(
        _returns_lists(method.module, project, node.value, position, depth)
        for method in dict.fromkeys(filter(None, methods))
        for node in walk(method.node)
        if isinstance(node, ast.Return) and node.value is not None
    )


def _classes_used(module: Module, project: Project) -> Iterator[Definition]:
    """The classes of the project that a module defines, or may create an instance of."""
    created = {last_name(call.func) for call in module.all_calls}
    for other in dict.fromkeys([module, *project.imported_by(module), *project.starred(module)]):
        for node in other.nodes[ast.ClassDef]:
            if other is module or node.name in created:
                yield Definition(other, node)


def _returns_lists(module: Module, project: Project, value, position: int | None, depth: int) -> bool:
    if isinstance(value, ast.Name) and position is None:
        value = module.stores.get(value.id, value)
    if position is not None and isinstance(value, ast.Tuple) and position < len(value.elts):
        return likely_arrays(module, project, value.elts[position], depth - 1) is not None
    return is_transposed(value)


def _fills_key(module: Module, project: Project, key: str) -> bool:
    """Whether this module or one that it imports appends observations to the entry of a dictionary."""
    return any(
        call.args and _is_key(call.func.value, key) and _is_likely_array(other, call.args[0])
        for other in project.imported_by(module)
        if key in other.text
        for call in other.methods(*FILLS)
    )


def _is_key(node, key: str) -> bool:
    return isinstance(node, ast.Subscript) and is_text(node.slice) and node.slice.value == key


def _is_passed(module: Module, project: Project, node, depth: int) -> bool:
    """Whether a parameter has the name of a list of arrays, or is given one by a caller nearby."""
    function = module.function(node)
    if not isinstance(node, ast.Name) or not isinstance(function, FUNCTIONS) or not _is_observation(node.id):
        return False
    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
    if depth < DEPTH or node.id not in names:
        return False
    passed = (
        (other, other.argument(call, node.id, names.index(node.id)))
        for other, call in _callers(module, project, function.name)
    )
    return bool(OF_EACH.search(node.id)) or any(
        isinstance(given, ast.Name | ast.Attribute | ast.ListComp)
        and likely_arrays(other, project, given, depth - 1) is not None
        for other, given in passed
    )


def _callers(module: Module, project: Project, name: str) -> Iterator[tuple[Module, ast.Call]]:
    """The first calls of a function or method of that name in this module and in its folder."""
    found = 0
    for other in dict.fromkeys((module, *project.beside(module))):
        for call in other.all_calls if f"{name}(" in other.text else ():
            if last_name(call.func) == name and found < MOST:
                found += 1
                yield other, call
