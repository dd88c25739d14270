"""Loops that learn in minibatches, and what they split into minibatches."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rlrepro.doctor.ast_index import FUNCTIONS, Module, calls_in, last_name, names_in, walk
from rlrepro.doctor.project import Definition, Project

SPLITS = {"split", "chunk", "array_split", "tensor_split", "iterate", "make_minibatches", "split_data_generator"}
SAMPLERS = re.compile(r"batch|sampler|loader|generator|indices|inds|idx", re.IGNORECASE)
DRAWS = {"choice", "randint", "randperm", "permutation", "sample"}
GENERATOR = re.compile(r"generator|batch|split|_iter\b", re.IGNORECASE)
WRAPPERS = {"DataLoader", "enumerate", "tqdm", "track", "list", "iter", "zip", "trange", "BatchSampler"}
PARTS = ("random_split", "Subset", "ConcatDataset")
VIEWS = {"reshape", "view", "to", "float", "flatten", "squeeze", "unsqueeze", "detach", "contiguous", "cuda", "clone"}
MAKES = {"tensor", "as_tensor", "FloatTensor", "Tensor", "from_numpy", "array", "asarray", "squeeze", "flatten"}
DEPTH = 2  # nested calls that are followed to find a gradient step


@dataclass
class LearningLoop:
    """A loop with gradient steps, and the expressions that it splits into minibatches, as source text."""

    loop: ast.For
    whole: set[str] = field(default_factory=set)


def learning_loops(module: Module, project: Project) -> Iterator[LearningLoop]:
    """The loops of a module that take minibatches and make gradient steps on them."""
    for node in module.nodes[ast.For]:
        learning = LearningLoop(node)
        _split_by_iterating(module, learning)
        _split_by_indexing(learning)
        if learning.whole and learns(module, project, node):
            _add_aliases(module, learning)
            yield learning


def learns(module: Module, project: Project, node, depth: int = DEPTH) -> bool:
    """Whether a piece of code makes a gradient step, itself or in functions that it calls in its class and module."""
    calls = calls_in(node)
    if any(is_gradient_step(call) for call in calls):
        return True
    if not depth:
        return False
    for call in calls:
        target = method_of_self(module, project, call) or project.definition(module, call.func)
        is_function = target is not None and isinstance(target.node, FUNCTIONS) and target.node is not node
        if is_function and learns(target.module, project, target.node, depth - 1):
            return True
    return False


def takes_parts(node) -> bool:
    """Whether a piece of code loops over something part by part: for start in range(0, len(x), size)."""
    iterables = (loop.iter for loop in walk(node) if isinstance(loop, ast.For | ast.comprehension))
    return any(
        isinstance(iterable, ast.Call) and last_name(iterable.func) == "range" and len(iterable.args) == 3
        for iterable in iterables
    )


def is_gradient_step(call: ast.Call) -> bool:
    """loss.backward(), optimizer.step(), scaler.scale(loss).backward(), accelerator.backward(loss)."""
    if not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr == "backward" or (
        call.func.attr == "step" and "optim" in ast.unparse(call.func.value).lower()
    )


def method_of_self(module: Module, project: Project, call: ast.Call) -> Definition | None:
    """The method that self.name(...) calls, defined in the class around the call or in a base class in the project."""
    func = call.func
    if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"):
        return None
    cls = module.class_around(call)
    return project.method(Definition(module, cls), func.attr) if cls is not None else None


def _split_by_iterating(module: Module, learning: LearningLoop) -> None:
    """for batch in data.split(64), in DataLoader(TensorDataset(x, y)), in generator(data, 64)."""
    source = _source(module, learning.loop.iter)
    if source is None:
        return
    name = last_name(source.func)
    if name == "DataLoader":
        learning.whole |= {ast.unparse(node) for node in tensors_of(module, module.argument(source, "dataset", 0))}
    elif name in SPLITS and isinstance(source.func, ast.Attribute) and not module.name(source.func):
        learning.whole.add(ast.unparse(source.func.value))
    elif (name in SPLITS or GENERATOR.search(name)) and source.args:
        learning.whole |= {ast.unparse(node) for node in source.args if isinstance(node, ast.Name | ast.Attribute)}


def _source(module: Module, node) -> ast.Call | None:
    """The call that yields a loop's values, looking through variables, enumerate and similar wrappers."""
    for _ in range(4):
        if isinstance(node, ast.Name):
            node = module.stores.get(node.id)
        elif isinstance(node, ast.Attribute):
            return None
        elif isinstance(node, ast.Call) and last_name(node.func) in WRAPPERS - {"DataLoader"} and node.args:
            node = node.args[0]
        else:
            break
    return node if isinstance(node, ast.Call) else None


def tensors_of(module: Module, dataset, seen: tuple = ()) -> list[ast.expr]:
    """The tensors of a TensorDataset, which may be a variable or wrapped in a subset."""
    if isinstance(dataset, ast.Name):
        dataset = module.stores.get(dataset.id) or split_from(module, dataset.id)
    if not isinstance(dataset, ast.Call) or dataset in seen:
        return []
    if last_name(dataset.func) in PARTS and dataset.args:
        return tensors_of(module, dataset.args[0], (*seen, dataset))
    has_tensors = last_name(dataset.func) == "TensorDataset"
    return [node for node in dataset.args if not isinstance(node, ast.Starred)] or dataset.args if has_tensors else []


def split_from(module: Module, name: str) -> ast.expr | None:
    """The call in `train, test = random_split(dataset, ...)`."""
    for call in module.calls("torch", *PARTS):
        target = getattr(module.parents.get(call), "targets", [None])[0]
        if isinstance(target, ast.Tuple) and name in {ast.unparse(node) for node in target.elts}:
            return call
    return None


def _add_aliases(module: Module, learning: LearningLoop) -> None:
    """Add other names of the same data: flat = batch.reshape(-1), inputs = {"obs": data["obs"]}."""
    function = module.function(learning.loop)
    assignments = [
        node
        for node in walk(function)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and not module.is_within(node, learning.loop)
    ]
    for _ in range(2):
        for node in assignments:
            target = ast.unparse(node.targets[0])
            if isinstance(node.value, ast.Dict):
                if any(value is not None and part_of(value, learning.whole) for value in node.value.values):
                    learning.whole.add(target)
                continue
            base = ast.unparse(without_views(node.value))
            if target in learning.whole and isinstance(without_views(node.value), ast.Name | ast.Attribute):
                learning.whole.add(base)
            elif base in learning.whole and isinstance(node.targets[0], ast.Name):
                learning.whole.add(target)


def part_of(node, expressions: set[str]) -> str | None:
    """The one of `expressions` that a node stands for: the node itself, the owner of its key or attribute, or the
    tensor that it is a view of; otherwise None."""
    while True:
        if (text := ast.unparse(node)) in expressions:
            return text
        inner = without_views(node)
        if inner is node and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            inner = node.value if isinstance(node.slice.value, str) else node
        elif inner is node and isinstance(node, ast.Attribute):
            inner = node.value
        if inner is node:
            return None
        node = inner


def is_same(module: Module, function, name: str, call, loop) -> bool:
    """Whether a name has the same value at the call and at the loop, and no environment is stepped around the call."""
    outer_loops = [node for node in module.loops(call) if node not in module.loops(loop)]
    steps = (node for outer in outer_loops for node in walk(outer) if isinstance(node, ast.Call))
    if any(last_name(step.func) == "step" and "env" in ast.unparse(step.func) for step in steps):
        return False
    lines = [
        node.lineno
        for node in walk(function)
        if isinstance(node, ast.Assign) and not module.is_within(node, loop) and name in map(ast.unparse, node.targets)
    ]
    previous = [max((line for line in lines if line < node.lineno), default=0) for node in (call, loop)]
    return previous[0] == previous[1]


def without_views(node) -> ast.expr:
    """The x in x.reshape(-1), x.to(device) or torch.tensor(x)."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id in ("torch", "np", "th", "T"):
            return node.args[0] if node.func.attr in MAKES and node.args else node
        return owner if node.func.attr in VIEWS else node
    return node


def _split_by_indexing(learning: LearningLoop) -> None:
    """x[start:start + 64], and x[index] where the index is a slice, a random draw, or yielded by a sampler."""
    loop = learning.loop
    loop_variables = names_in(loop.target)  # these change in every iteration
    iterable = ast.unparse(loop.iter)  # a sampler yields several indices, unlike range
    by_sampler = bool(SAMPLERS.search(iterable)) and ("range(" not in iterable or "Sampler(" in iterable)
    selectors = set(loop_variables) if by_sampler else set()
    assigned = set()  # within the loop
    for node in _in_order(loop.body):
        if isinstance(node, ast.Assign):
            names = set().union(*map(names_in, node.targets))
            assigned |= names
            if _selects(node.value, loop_variables, selectors):
                selectors |= names
            if names_in(node.value) & loop_variables:
                loop_variables |= names
    for node in _in_order(loop.body):
        is_read = (
            isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and not names_in(node.value) & assigned
        )
        if is_read and (_slices(node.slice, loop_variables) or names_in(node.slice) & selectors):
            learning.whole.add(ast.unparse(node.value))


def _selects(value, loop_variables: set[str], selectors: set[str]) -> bool:
    """Whether an expression selects several elements: order[a:b], order[k], a random draw, or a copy of those."""
    if isinstance(value, ast.Subscript):
        return _slices(value.slice, loop_variables)
    if isinstance(value, ast.Call):
        if last_name(value.func) == "slice":
            return bool(names_in(value) & loop_variables)
        if last_name(value.func) in DRAWS and "buffer" not in ast.unparse(value.func):
            return True
        return any(isinstance(node, ast.Name) and node.id in selectors for node in value.args) and bool(
            {"tensor", "LongTensor", "from_numpy", "as_tensor", "array", "to"} & {last_name(value.func)}
        )
    return False


def _slices(node, loop_variables: set[str]) -> bool:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(part, ast.Slice) and names_in(part) & loop_variables for part in parts)


def _in_order(statements) -> Iterator[ast.AST]:
    for statement in statements:
        yield from walk(statement)
