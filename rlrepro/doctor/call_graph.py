"""The functions that a call can reach, across the modules of a project."""

import ast
from collections.abc import Iterable, Iterator

from rlrepro.doctor.ast_index import FUNCTIONS, Module, words_of
from rlrepro.doctor.instances import class_of
from rlrepro.doctor.lone_workers import walk_all_ranks
from rlrepro.doctor.project import Definition, Project

MAX_FUNCTIONS = 400  # followed from one call
COMMON = {"update", "step", "reset", "train", "run", "close", "get", "add", "pop", "append", "copy", "start", "join"}
# Words in the name of an object that learns.
LEARNER = {"agent", "agents", "learner", "algo", "algorithm", "trainer", "policy", "player", "brain", "actor", "critic"}
LEARNER |= {"model", "net", "network", "dqn", "ppo", "sac", "ddpg", "td3", "a2c", "a3c", "runner", "nnet", "mcts"}


class Reachable:
    """The functions of the project that may run when one of them is called, in processes of all ranks.

    Where the type of a variable is unknown, a method call reaches the methods of that name in every class that is
    instantiated on the way (rapid type analysis) or whose instances are `passed`.
    """

    def __init__(self, project: Project, start: Definition, passed: Iterable[Definition] = ()):
        self.project = project
        self.functions, self.classes = {}, {}  # node: module; dicts keep the order
        self._methods = set()
        for cls in passed:
            self._add_class(cls, is_created=False)
        if cls := start.module.class_around(start.node):
            self._add_class(Definition(start.module, cls))
        self._add(start)

    @property
    def modules(self) -> list[Module]:
        return list(dict.fromkeys([*self.functions.values(), *self.classes.values()]))

    def calls(self) -> Iterator[tuple[Module, ast.Call]]:
        """Every call in these functions that processes of all ranks make, with its module."""
        for function, module in self.functions.items():
            for node in walk_all_ranks(function):
                if isinstance(node, ast.Call):
                    yield module, node

    def _add(self, definition: Definition) -> None:
        module, function = definition
        if function in self.functions or len(self.functions) >= MAX_FUNCTIONS:
            return
        self.functions[function] = module
        for node in walk_all_ranks(function):
            if isinstance(node, ast.Call):
                self._follow(module, node)

    def _follow(self, module: Module, call: ast.Call) -> None:
        target = self.project.definition(module, call.func)
        if target is not None and isinstance(target.node, ast.ClassDef):
            self._add_class(target)
        elif target is not None and isinstance(target.node, FUNCTIONS):
            self._add(target)
        elif isinstance(call.func, ast.Attribute):
            self._follow_method(module, call.func)

    def _follow_method(self, module: Module, method: ast.Attribute) -> None:
        if method.attr not in self._methods and _is_specific(method):
            self._methods.add(method.attr)
            for cls, cls_module in tuple(self.classes.items()):
                self._add_method(Definition(cls_module, cls), method.attr)
        cls = class_of(module, self.project, method.value)
        if cls is not None and (definition := self.project.method(cls, method.attr)):
            self._add(definition)

    def _add_class(self, cls: Definition, *, is_created: bool = True) -> None:
        if cls.node in self.classes or len(self.classes) >= MAX_FUNCTIONS:
            return
        self.classes[cls.node] = cls.module
        for name in (*(("__init__", "__call__", "forward") if is_created else ()), *self._methods):
            self._add_method(cls, name)
        for base in cls.node.bases:
            base_class = self.project.definition(cls.module, base)
            if base_class is not None and isinstance(base_class.node, ast.ClassDef):
                self._add_class(base_class, is_created=is_created)

    def _add_method(self, cls: Definition, name: str) -> None:
        for node in cls.node.body:
            if isinstance(node, FUNCTIONS) and node.name == name:
                self._add(Definition(cls.module, node))


def _is_specific(method: ast.Attribute) -> bool:
    """Whether a method is specific enough to follow. `update` is not, except on self or an object that learns."""
    owner = ast.unparse(method.value)
    return method.attr not in COMMON or owner == "self" or bool(words_of(owner) & LEARNER)
