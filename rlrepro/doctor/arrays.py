"""Which lists hold arrays, such as observations and other results of an environment."""

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
SHORT = ("s", "s_", "s_prime", "s2", "ns")  # names of states in many small scripts
TRANSPOSED = object()
ARRAYS = {"array", "asarray", "stack", "concatenate", "vstack", "hstack", "zeros", "ones", "transpose", "expand_dims"}
LISTS = ("list", "deque", "collections.deque")


def list_of_arrays(module: Module, project: Project, node, calls: int = 1) -> str | None:
    """The text of the elements if an expression is evidently a list or tuple of arrays, otherwise None. Follows up to
    `calls` calls to the place where the list is built."""
    if isinstance(node, ast.Call) and last_name(node.func) == "list" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.ListComp):
        named = is_positional(node.elt) and _named(assigned_name(module, node)) and ".tolist()" not in module.text
        return short_text(node.elt) if named or is_array(module, node.elt) else None
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
    for other in walk(home_of(module, node)):
        if isinstance(other, ast.Assign | ast.AnnAssign) and other.value is not None:
            if module.is_within(node, other):
                continue  # states = torch.tensor(states)
            for value in assigned_values(module, project, other, name, calls):
                if isinstance(value, ast.ListComp):
                    elements.append(value.elt)
                elif value is TRANSPOSED:
                    transposed = True
                elif not _is_empty_list(value) and not _is_tensor(module, value):
                    return None  # it is something else in at least one place
        elif appends_to(other, name):
            elements.append(other.args[0])
    if isinstance(node, ast.Attribute) and not elements and is_transposed(module.stores.get(ast.unparse(node.value))):
        transposed = True  # batch.state of batch = Transition(*zip(*transitions))
    if transposed:
        return _last(name) if not elements and _named(_last(name)) else None
    elements = [*{ast.unparse(node): node for node in elements}.values()]  # each is searched for in the whole function
    named = _named(_last(name)) and ".tolist()" not in module.text  # the text may make lists of them
    arrays = [node for node in elements if is_array(module, node) or (is_positional(node) and named)]
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
            for position, part in enumerate(target.elts):
                if ast.unparse(part) == name:
                    yield _part(module, project, assignment.value, position, calls)


def _part(module: Module, project: Project, value, position: int, calls: int):
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
            return _last(ast.unparse(outer.targets[0]))
        if not isinstance(outer, ast.Call | ast.Attribute):
            break
    return ""


def home_of(module: Module, node) -> ast.AST:
    """The code that may fill a variable: the class for an attribute, otherwise the function."""
    around = module.class_around(node) if isinstance(node, ast.Attribute) else None
    return around or module.function(node)


def _is_empty_list(node) -> bool:
    if isinstance(node, ast.List):
        return not node.elts
    return isinstance(node, ast.Call) and ast.unparse(node.func) in LISTS


def is_positional(node) -> bool:
    """transition[0], minibatch[i][3]: an element that has no name of its own."""
    return isinstance(node, ast.Subscript) and not is_text(node.slice)


def is_text(node) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _last(name: str) -> str:
    return name.split(".")[-1]


def is_transposed(node) -> bool:
    """zip(*batch), map(list, zip(*batch)), Transition(*zip(*batch))."""
    if not isinstance(node, ast.Call):
        return False
    calls = [inner for inner in walk(node) if isinstance(inner, ast.Call)]
    return any(
        last_name(call.func) == "zip" and any(isinstance(arg, ast.Starred) for arg in call.args) for call in calls
    ) and not any(module_of_arrays in ast.unparse(node) for module_of_arrays in ("np.", "numpy.", "torch."))


def is_array(module: Module, node) -> bool:
    """Whether an element is an observation, judged by its name or by coming from an environment."""
    if isinstance(node, ast.Subscript):
        return is_text(node.slice) and _named(node.slice.value)
    if isinstance(node, ast.Call):  # state.copy(), np.array(state)
        full = module.name(node.func) or ""
        comes_from_numpy = full.split(".")[0] == "numpy" and full.split(".")[-1] in ARRAYS
        copies = isinstance(node.func, ast.Attribute) and node.func.attr == "copy"
        return comes_from_numpy or (copies and is_array(module, node.func.value))
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    if is_assigned_tensor(module, node):
        return False
    is_short = isinstance(node, ast.Attribute) and node.attr in SHORT  # transition.s
    return is_short or _named(last_name(node)) or _from_environment(module, node)


def _named(name: str) -> bool:
    words = words_of(name)
    return bool(words & OBSERVATION) and not words & SCALAR


def is_assigned_tensor(module: Module, node) -> bool:
    """Whether the variable is assigned a tensor or a plain number in its function."""
    name = ast.unparse(node)
    for other in walk(home_of(module, node)):
        if isinstance(other, ast.Assign) and any(ast.unparse(target) == name for target in other.targets):
            names = [module.name(call.func) or "" for call in walk(other.value) if isinstance(call, ast.Call)]
            if any(full.split(".")[0] == "torch" for full in names) or isinstance(other.value, ast.Constant | ast.List):
                return True
    return False


def _from_environment(module: Module, node) -> bool:
    """Whether a variable is the first value that an environment's `step` or `reset` returns."""
    name = ast.unparse(node)
    for other in walk(home_of(module, node)):
        if not isinstance(other, ast.Assign) or not isinstance(other.value, ast.Call):
            continue
        if last_name(other.value.func) not in ("step", "reset") or "env" not in ast.unparse(other.value.func):
            continue
        for target in other.targets:
            first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
            if ast.unparse(first) == name:
                return True
    return any(_unpacks(module, other, name) for other in walk(home_of(module, node)))


def _unpacks(module: Module, other, name: str) -> bool:
    """`s, a, r, s_prime, done = transition`: single letters, as in many small scripts."""
    if isinstance(other, ast.Assign) and isinstance(other.targets[0], ast.Tuple):
        parts = [ast.unparse(node) for node in other.targets[0].elts]
        return name in SHORT and "s" in parts and bool({"r", "a"} & {*parts})
    return False


def short_text(node) -> str:
    return ast.unparse(node)[:40]
