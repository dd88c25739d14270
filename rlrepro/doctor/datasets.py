"""A project's own data sets whose samples are already in memory."""

import ast
import re

from rlrepro.doctor.arrays import is_array
from rlrepro.doctor.ast_index import FUNCTIONS, Module, calls_in, last_name, walk
from rlrepro.doctor.instances import passed_arguments
from rlrepro.doctor.minibatches import PARTS, split_from
from rlrepro.doctor.project import Definition, Project

# Reading files and changing samples at random have to be done sample by sample.
TEXTS = re.compile(r"\b(str|[Dd]ict)\b")
FETCHES = re.compile(r"open|load|read|Image|transform|augment|token|pad|rand|h5|join\(")


def is_in_memory(module: Module, project: Project, dataset, seen: set | None = None) -> bool:
    """Whether a data set is an instance of a class in the project that only indexes tensors, part of one, or a list of
    tuples of tensors. `seen` has the expressions that were already examined."""
    seen = set() if seen is None else seen
    if dataset in seen:
        return False
    seen.add(dataset)
    if isinstance(dataset, ast.Name) and (value := module.stores.get(dataset.id) or split_from(module, dataset.id)):
        return is_in_memory(module, project, value, seen)
    if isinstance(dataset, ast.Name | ast.Attribute):
        arguments = passed_arguments(module, project, dataset)
        return any(is_in_memory(caller, project, argument, seen) for caller, argument in arguments)
    if not isinstance(dataset, ast.Call):
        return False
    if last_name(dataset.func) == "list" and dataset.args:
        return _has_tensors(module, dataset.args[0])
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


def _has_tensors(module: Module, zipped) -> bool:
    """Whether `zip(states, returns)` combines observations, or what a torch call returned."""
    if not isinstance(zipped, ast.Call) or last_name(zipped.func) != "zip":
        return False
    values = (module.stores.get(last_name(part), part) for part in zipped.args)
    names = (module.name(call.func) or "" for value in values for call in calls_in(value))
    return any(is_array(module, part) for part in zipped.args) or any(name.startswith("torch.") for name in names)


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
