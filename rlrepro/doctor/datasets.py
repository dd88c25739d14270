"""A project's own data sets whose samples are already in memory."""

import ast
import re

from rlrepro.doctor.ast_index import FUNCTIONS, Module, last_name, walk
from rlrepro.doctor.minibatches import PARTS, split_from
from rlrepro.doctor.project import Definition, Project

# Reading files and changing samples at random have to be done sample by sample.
TEXTS = re.compile(r"\b(str|[Dd]ict)\b")
FETCHES = re.compile(r"open|load|read|Image|transform|augment|token|rand|h5|join\(")


def is_in_memory(module: Module, project: Project, dataset, seen: set | None = None) -> bool:
    """Whether a data set is an instance of a class in the project that only indexes tensors, or part of one. `seen` has
    the calls that were already examined."""
    seen = set() if seen is None else seen
    if isinstance(dataset, ast.Name):
        dataset = module.stores.get(dataset.id) or split_from(module, dataset.id)
    if not isinstance(dataset, ast.Call) or dataset in seen:
        return False
    seen.add(dataset)
    if last_name(dataset.func) in PARTS and dataset.args:
        source = dataset.args[0]
        is_tensor_dataset = isinstance(source, ast.Name) and any(module.calls("torch", "TensorDataset"))
        return is_tensor_dataset or is_in_memory(module, project, source, seen)
    target = project.definition(module, dataset.func)
    if target is not None:
        return _only_indexes(project, target) if isinstance(target.node, ast.ClassDef) else False
    if not isinstance(dataset.func, ast.Attribute) or module.name(dataset.func):
        return False
    return any(
        isinstance(node, ast.Return) and is_in_memory(method.module, project, node.value, seen)
        for method in project.methods_named(module, dataset.func.attr)
        for node in walk(method.node)
    )


def _only_indexes(project: Project, cls: Definition) -> bool:
    """Whether the method that returns a sample takes it from tensors, and does nothing else."""
    method = project.method(cls, "__getitem__")
    if method is None or not isinstance(method.node, FUNCTIONS) or len(method.node.args.args) < 2:
        return False
    nodes = list(walk(method.node))
    loops = any(isinstance(node, ast.For | ast.While) for node in nodes)
    calls = (node.func for node in nodes if isinstance(node, ast.Call))
    if loops or _holds_texts(cls) or any(project.definition(cls.module, func) for func in calls):
        return False
    index, text = method.node.args.args[1].arg, ast.unparse(method.node)
    indexed = (node for node in nodes if isinstance(node, ast.Subscript))
    return any(index in ast.unparse(node.slice) for node in indexed) and not FETCHES.search(text)


def _holds_texts(cls: Definition) -> bool:
    """Whether an annotation in a class names texts or dictionaries."""
    annotations = (getattr(node, "annotation", None) for node in walk(cls.node))
    return any(TEXTS.search(ast.unparse(annotation)) for annotation in annotations if annotation)
