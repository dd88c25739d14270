"""Recognize lists that probably hold arrays, on weaker evidence than in `arrays` and across functions and modules."""

import ast
import re
from collections.abc import Iterator

from rlrepro.doctor.arrays import (
    CONVOLUTION,
    OBSERVATION,
    SCALAR,
    SHORT_NAMES,
    TRANSPOSED,
    appends_to,
    assigned_name,
    assigned_values,
    is_array,
    is_assigned_tensor,
    is_positional,
    is_text,
    is_transposed,
    search_scope,
    short_text,
)
from rlrepro.doctor.ast_index import FUNCTIONS, Module, last_name, walk, words_of
from rlrepro.doctor.project import Definition, Project

# Names of lists with one observation per agent or environment.
PER_AGENT = re.compile(r"obss$|obs_n$|(obs|observations?|states?)_(list|lst)$")
READS = ("reset", "get_obs", "get_state", "get_observation", "current_state")  # methods of environments
SINGLE = {"loss", "losses", "score", "scores", "reward", "rewards", "mean", "sum", "max", "min", "norm"}
FILLS = ("append", "extend")
MAX_CANDIDATES = 20  # calls of a function, or values of a variable, that are examined
DEPTH = 3  # of nested lists; callers are only examined at the top level


def likely_arrays(module: Module, project: Project, node, depth: int = DEPTH) -> str | None:
    """The text of an expression if it is likely to be a list of arrays, otherwise None."""
    if isinstance(node, ast.Call) and last_name(node.func) == "list" and len(node.args) == 1:
        node = node.args[0]
    if not depth:
        return None
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        name = assigned_name(module, node)
        is_part = is_positional(node.elt) and (_is_observation(name) or name in SHORT_NAMES)
        is_copy = ast.unparse(node.elt) == ast.unparse(node.generators[0].target)
        copied = is_copy and likely_arrays(module, project, node.generators[0].iter, depth - 1)
        is_element_array = not is_positional(node.elt) and _is_likely_array(module, node.elt)
        return short_text(node) if is_part or copied or is_element_array else None
    if isinstance(node, ast.List) and len(node.elts) == 1 and isinstance(node.elts[0], ast.Name):
        has_images = any(CONVOLUTION.search(mod.text) for mod in project.imported_by(module))
        return short_text(node) if has_images and is_array(module, node.elts[0]) else None
    if isinstance(node, ast.Subscript) and is_text(node.slice):
        is_filled = _is_observation(node.slice.value) and _fills_key(module, project, node.slice.value)
        return short_text(node) if is_filled else None
    if isinstance(node, ast.Name | ast.Attribute):
        is_filled = _is_filled(module, project, node, depth) or _is_passed(module, project, node, depth)
        return short_text(node) if is_filled else None
    return None


def _is_observation(name: str) -> bool:
    """Whether a name is that of one or several observations, such as state_batch or obs_n."""
    words = words_of(name)
    return bool(words & (OBSERVATION | {"arrays", "board", "boards"})) and not words & (SCALAR - {"batch", "n"})


def _is_likely_array(module: Module, node) -> bool:
    if isinstance(node, ast.Call):
        is_read = last_name(node.func) in READS and not (node.args or node.keywords)
        is_copied = last_name(node.func) == "numpy" and not words_of(ast.unparse(node)) & SINGLE  # x.cpu().numpy()
        return is_read or is_copied or is_array(module, node)
    if isinstance(node, ast.Subscript) and not is_text(node.slice):
        return _is_observation(last_name(node.value)) or last_name(node.value) in SHORT_NAMES
    if isinstance(node, ast.Name | ast.Attribute) and _is_observation(last_name(node)):
        return not is_assigned_tensor(module, node)
    return is_array(module, node)


def _is_filled(module: Module, project: Project, node, depth: int) -> bool:
    """Whether code in reach fills a variable with arrays, and none of it assigns an array or a tensor to it."""
    name, values, additions = ast.unparse(node), [], {}
    for inner in walk(search_scope(module, node)):
        if isinstance(inner, ast.Assign) and not module.is_within(node, inner):  # not states = torch.tensor(states)
            values += [(inner, value) for value in assigned_values(module, project, inner, name, calls=0)]
        elif appends_to(inner, name) or _extends(inner, name):
            additions[ast.unparse(inner)] = inner
    if any(_is_library_result(module, value) for _, value in values):
        return False
    if isinstance(node, ast.Attribute) and _is_observation(node.attr.rstrip("_")):
        owner = module.stores.get(ast.unparse(node.value))  # batch.state, where batch = memory.sample(64)
        if isinstance(owner, ast.Call) and _is_sample(module, project, owner, None, depth):
            return True
    return any(_adds_arrays(module, project, call, depth) for call in [*additions.values()][:MAX_CANDIDATES]) or any(
        _assigns_arrays(module, project, *assigned, name, depth) for assigned in values[:MAX_CANDIDATES]
    )


def _adds_arrays(module: Module, project: Project, call: ast.Call, depth: int) -> bool:
    """Whether states.append(...) adds an array or a list of arrays, or states.extend(...) several arrays."""
    element = call.args[0]
    is_list = isinstance(element, ast.Name | ast.ListComp | ast.GeneratorExp)
    if is_list and likely_arrays(module, project, element, depth - 1):
        return True
    if (
        isinstance(element, ast.Call)
        and last_name(element.func) == "map"
        and isinstance((*element.args, None)[0], ast.Lambda)
    ):
        return _is_likely_array(module, element.args[0].body)
    return call.func.attr == "append" and _is_likely_array(module, element)


def _assigns_arrays(module: Module, project: Project, assignment: ast.Assign, value, name: str, depth: int) -> bool:
    """Whether a value that an assignment gives to a variable is a list of arrays."""
    if value is TRANSPOSED:
        return _is_observation(name.split(".")[-1]) or _is_state_of_tuple(assignment, name)
    if value is assignment.value and isinstance(value, ast.Call):
        target = assignment.targets[0]
        names = [ast.unparse(part) for part in target.elts] if isinstance(target, ast.Tuple) else []
        return name in names and _is_sample(module, project, value, names.index(name), depth)
    return likely_arrays(module, project, value, depth - 1) is not None


def _is_state_of_tuple(assignment: ast.Assign, name: str) -> bool:
    """Whether a variable is the s or S1 of s, a, r, s_ = zip(*samples) or S0, A0, R1, S1 = zip(*samples)."""
    targets = [ast.unparse(part) for target in assignment.targets for part in getattr(target, "elts", ())]
    letters = {target: target.lower().strip("0123456789_") for target in targets}
    return letters.get(name) == "s" and {"a", "r"} <= {*letters.values()}


def _is_library_result(module: Module, value) -> bool:
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
    for mod in dict.fromkeys([module, *project.imported_by(module), *project.starred(module)]):
        for node in mod.nodes[ast.ClassDef]:
            if mod is module or node.name in created:
                yield Definition(mod, node)


def _returns_lists(module: Module, project: Project, value, position: int | None, depth: int) -> bool:
    if isinstance(value, ast.Name) and position is None:
        value = module.stores.get(value.id, value)
    if position is not None and isinstance(value, ast.Tuple) and position < len(value.elts):
        return likely_arrays(module, project, value.elts[position], depth - 1) is not None
    return is_transposed(value)


def _fills_key(module: Module, project: Project, key: str) -> bool:
    """Whether this module or one that it imports appends observations to the entry of a dictionary."""
    return any(
        call.args and _is_key(call.func.value, key) and _is_likely_array(mod, call.args[0])
        for mod in project.imported_by(module)
        if key in mod.text
        for call in mod.methods(*FILLS)
    )


def _is_key(node, key: str) -> bool:
    return isinstance(node, ast.Subscript) and is_text(node.slice) and node.slice.value == key


def _is_passed(module: Module, project: Project, node, depth: int) -> bool:
    """Whether a parameter has the name of a list of arrays, or receives one from a caller nearby."""
    function = module.function(node)
    if not isinstance(node, ast.Name) or not isinstance(function, FUNCTIONS) or not _is_observation(node.id):
        return False
    names = [parameter.arg for parameter in function.args.args if parameter.arg != "self"]
    if depth < DEPTH or node.id not in names:
        return False
    arguments = (
        (caller, caller.argument(call, node.id, names.index(node.id)))
        for caller, call in _callers(module, project, function.name)
    )
    return bool(PER_AGENT.search(node.id)) or any(
        isinstance(argument, ast.Name | ast.Attribute | ast.ListComp)
        and likely_arrays(caller, project, argument, depth - 1) is not None
        for caller, argument in arguments
    )


def _callers(module: Module, project: Project, name: str) -> Iterator[tuple[Module, ast.Call]]:
    """The first calls of a function or method of that name in this module and in its folder."""
    count = 0
    for mod in dict.fromkeys((module, *project.beside(module))):
        for call in mod.all_calls if f"{name}(" in mod.text else ():
            if last_name(call.func) == name and count < MAX_CANDIDATES:
                count += 1
                yield mod, call
