"""Recognize lists of arrays, such as observations and other results of an environment."""

import ast
import re
from collections.abc import Iterator

from rlrepro.doctor.ast_index import Module, last_name, walk, words_of
from rlrepro.doctor.project import Definition, Project

# Words in the name of an observation, and words whose presence means that it is something else.
OBSERVATION = {"state", "states", "obs", "ob", "observation", "observations", "frame", "frames", "image", "images"}
OBSERVATION |= {"img", "imgs", "screen", "screens", "obses", "obss", "nextstate", "nextstates", "newstate"}
SCALAR = {"value", "values", "action", "actions", "act", "reward", "rewards", "done", "dones", "dim", "dims", "size"}
SCALAR |= {"shape", "len", "num", "n", "idx", "id", "index", "indices", "count", "log", "logp", "prob", "probs", "mask"}
SCALAR |= {"type", "name", "names", "time", "times", "step", "steps", "rate", "std", "mean", "sum", "hidden", "dict"}
SCALAR |= {"tensor", "tensors", "score", "scores", "loss", "losses", "ids", "ret", "returns", "weights", "keys", "dist"}
SCALAR |= {"config", "path", "paths", "file", "files", "space", "spaces", "batch", "token", "tokens", "is", "has"}
CONVOLUTION = re.compile(r"\bConv[123]d\(")
SHORT_NAMES = ("s", "s_", "s_prime", "s2", "ns")  # names of states in many small scripts
TRANSPOSED = object()
ARRAYS = {"array", "asarray", "stack", "concatenate", "vstack", "hstack", "zeros", "ones", "transpose", "expand_dims"}
LISTS = ("list", "deque", "collections.deque")


def list_of_arrays(module: Module, project: Project, node, calls: int = 1) -> str | None:
    """The text of the elements if an expression is evidently a list or tuple of arrays, otherwise None. Follows up to
    `calls` calls to the place where the list is built."""
    if isinstance(node, ast.Call) and last_name(node.func) == "list" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.ListComp):
        is_named = (
            is_positional(node.elt)
            and _names_observation(assigned_name(module, node))
            and ".tolist()" not in module.text
        )
        return short_text(node.elt) if is_named or is_array(module, node.elt) else None
    if isinstance(node, ast.List) and len(node.elts) == 1 and isinstance(node.elts[0], ast.Name):
        if not CONVOLUTION.search(module.text):
            return None  # a vector costs little
        return short_text(node.elts[0]) if is_array(module, node.elts[0]) else None
    if isinstance(node, ast.Name | ast.Attribute):
        return _elements(module, project, node, calls)
    return None


def _elements(module: Module, project: Project, node, calls: int) -> str | None:
    """The elements of a variable, judged by how it is filled: append, a comprehension, or zip(*transitions)."""
    name, elements, transposed = ast.unparse(node), [], False
    for inner in walk(search_scope(module, node)):
        if isinstance(inner, ast.Assign | ast.AnnAssign) and inner.value is not None:
            if module.is_within(node, inner):
                continue  # states = torch.tensor(states)
            for value in assigned_values(module, project, inner, name, calls):
                if isinstance(value, ast.ListComp):
                    elements.append(value.elt)
                elif value is TRANSPOSED:
                    transposed = True
                elif not _is_empty_list(value) and not _is_tensor(module, value):
                    return None  # the variable is something else in at least one place
        elif appends_to(inner, name):
            elements.append(inner.args[0])
    if isinstance(node, ast.Attribute) and not elements and is_transposed(module.stores.get(ast.unparse(node.value))):
        transposed = True  # batch.state of batch = Transition(*zip(*transitions))
    if transposed:
        return _last_part(name) if not elements and _names_observation(_last_part(name)) else None
    # Drop repeated elements, since the whole function is searched for each of them.
    elements = [*{ast.unparse(element): element for element in elements}.values()]
    # With .tolist() somewhere, the elements may be lists.
    is_named = _names_observation(_last_part(name)) and ".tolist()" not in module.text
    arrays = [element for element in elements if is_array(module, element) or (is_positional(element) and is_named)]
    return short_text(arrays[0]) if arrays and len(arrays) == len(elements) else None


def appends_to(node, name: str) -> bool:
    is_append = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
    return is_append and bool(node.args) and ast.unparse(node.func.value) == name


def _is_tensor(module: Module, value) -> bool:
    """Whether the value is the result of a torch call, as in states = torch.cat(...)."""
    return isinstance(value, ast.Call) and (module.name(value.func) or "").split(".")[0] == "torch"


def assigned_values(module: Module, project: Project, assignment, name: str, calls: int) -> Iterator:
    """The values that an assignment gives to a variable, alone or in a tuple; TRANSPOSED for a part of zip(*x)."""
    for target in assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]:
        if ast.unparse(target) == name:
            yield assignment.value
        elif isinstance(target, ast.Tuple):
            for position, element in enumerate(target.elts):
                if ast.unparse(element) == name:
                    yield _unpacked(module, project, assignment.value, position, calls)


def _unpacked(module: Module, project: Project, value, position: int, calls: int):
    """The value at a position of a tuple assignment."""
    if isinstance(value, ast.Tuple):
        return value.elts[position] if position < len(value.elts) else value
    if is_transposed(value):
        return TRANSPOSED
    if calls and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        methods = project.methods_named(module, value.func.attr)
        if methods and all(_returns_lists(project, method, position) for method in methods):
            return TRANSPOSED
    return value


def _returns_lists(project: Project, method: Definition, position: int) -> bool:
    """Whether a method returns zip(*batch), or a tuple whose element at this position is a list of arrays."""
    returns = [node.value for node in walk(method.node) if isinstance(node, ast.Return) and node.value is not None]
    return bool(returns) and all(
        is_transposed(value)
        or (
            isinstance(value, ast.Tuple)
            and position < len(value.elts)
            and list_of_arrays(method.module, project, value.elts[position], calls=0) is not None
        )
        for value in returns
    )


def assigned_name(module: Module, node) -> str:
    """The name of the variable that an expression is assigned to: states in states = torch.tensor([...]).to(device)."""
    for outer in module.ancestors(node):
        if isinstance(outer, ast.Assign):
            return _last_part(ast.unparse(outer.targets[0]))
        if not isinstance(outer, ast.Call | ast.Attribute):
            break
    return ""


def search_scope(module: Module, node) -> ast.AST:
    """The code that may fill a variable: the class for an attribute, otherwise the function."""
    cls = module.class_around(node) if isinstance(node, ast.Attribute) else None
    return cls or module.function(node)


def _is_empty_list(node) -> bool:
    if isinstance(node, ast.List):
        return not node.elts
    return isinstance(node, ast.Call) and ast.unparse(node.func) in LISTS


def is_positional(node) -> bool:
    """transition[0], minibatch[i][3]: an element without a name of its own."""
    return isinstance(node, ast.Subscript) and not is_text(node.slice)


def is_text(node) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _last_part(name: str) -> str:
    return name.split(".")[-1]


def is_transposed(node) -> bool:
    """zip(*batch), map(list, zip(*batch)), Transition(*zip(*batch))."""
    if not isinstance(node, ast.Call):
        return False
    calls = [inner for inner in walk(node) if isinstance(inner, ast.Call)]
    return any(
        last_name(call.func) == "zip" and any(isinstance(arg, ast.Starred) for arg in call.args) for call in calls
    ) and not any(prefix in ast.unparse(node) for prefix in ("np.", "numpy.", "torch."))


def is_array(module: Module, node) -> bool:
    """Whether an element is an observation, judged by its name or its origin."""
    if isinstance(node, ast.Subscript):
        return is_text(node.slice) and _names_observation(node.slice.value)
    if isinstance(node, ast.Call):  # state.copy(), np.array(state)
        full_name = module.name(node.func) or ""
        comes_from_numpy = full_name.split(".")[0] == "numpy" and full_name.split(".")[-1] in ARRAYS
        is_copy = isinstance(node.func, ast.Attribute) and node.func.attr == "copy"
        return comes_from_numpy or (is_copy and is_array(module, node.func.value))
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    if is_assigned_tensor(module, node):
        return False
    is_short = isinstance(node, ast.Attribute) and node.attr in SHORT_NAMES  # transition.s
    return is_short or _names_observation(last_name(node)) or _from_environment(module, node)


def _names_observation(name: str) -> bool:
    words = words_of(name)
    return bool(words & OBSERVATION) and not words & SCALAR


def is_assigned_tensor(module: Module, node) -> bool:
    """Whether the variable is assigned a tensor or a plain number in its function."""
    name = ast.unparse(node)
    for inner in walk(search_scope(module, node)):
        if isinstance(inner, ast.Assign) and any(ast.unparse(target) == name for target in inner.targets):
            names = [module.name(call.func) or "" for call in walk(inner.value) if isinstance(call, ast.Call)]
            if any(full.split(".")[0] == "torch" for full in names) or isinstance(inner.value, ast.Constant | ast.List):
                return True
    return False


def _from_environment(module: Module, node) -> bool:
    """Whether a variable is the first value that an environment's `step` or `reset` returns."""
    name = ast.unparse(node)
    for inner in walk(search_scope(module, node)):
        if not isinstance(inner, ast.Assign) or not isinstance(inner.value, ast.Call):
            continue
        if last_name(inner.value.func) not in ("step", "reset") or "env" not in ast.unparse(inner.value.func):
            continue
        for target in inner.targets:
            first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
            if ast.unparse(first) == name:
                return True
    return any(_unpacks(module, inner, name) for inner in walk(search_scope(module, node)))


def _unpacks(module: Module, node, name: str) -> bool:
    """`s, a, r, s_prime, done = transition`: single letters, as in many small scripts."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        names = [ast.unparse(element) for element in node.targets[0].elts]
        return name in SHORT_NAMES and "s" in names and bool({"r", "a"} & {*names})
    return False


def short_text(node) -> str:
    return ast.unparse(node)[:40]
