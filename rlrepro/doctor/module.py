"""A Python text as the rules see it: names with the package they come from, calls, loops, and constants."""

import ast
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

UNKNOWN = object()
LARGEST = 2 * 2**20  # bytes of a file that is read
LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.comprehension)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Module:
    """One parsed text. Nothing of it is imported or run."""

    def __init__(self, tree: ast.Module, text: str, folder: Path | None = None):
        self.tree, self.text, self.folder = tree, text, folder
        self.parents, self.all_calls = {}, []
        self.imports, self.stars = {}, []
        self._constants, self.stores = {}, {}
        nodes = deque([tree])
        while nodes:  # once over all of them: this is most of the work
            node = nodes.popleft()
            self._note(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                nodes.append(child)

    def _note(self, node) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                self.imports.setdefault(alias.name, alias.name)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(node.module)
                else:
                    self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Call):
            self.all_calls.append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    known = target.id in self.stores
                    self.stores[target.id] = node.value
                    self._constants[target.id] = UNKNOWN if known else _literal(node.value)

    def neighbours(self) -> Iterator[str]:
        """The texts of the modules beside this one that it imports, as far as they can be read."""
        for name in sorted({each.split(".")[0] for each in self.imports.values()}) if self.folder else ():
            path = self.folder / f"{name}.py"
            if path.is_file() and path.stat().st_size <= LARGEST:
                with suppress(OSError):
                    yield path.read_text(errors="replace")

    def packages(self) -> set[str]:
        """The packages that are imported, by the first part of their names."""
        return {name.split(".")[0] for name in (*self.imports.values(), *self.stars)}

    def name(self, node) -> str | None:
        """The full dotted name of a Name or Attribute whose beginning was imported; None where it was not."""
        parts = []
        node = node.value if isinstance(node, ast.Subscript) else node  # Collector[CollectStats]
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.imports:
            return ".".join([self.imports[node.id], *reversed(parts)])
        if not parts and self.stars and node.id not in self.stores:
            return f"{self.stars[-1]}.{node.id}"
        return None

    def calls(self, package: str, *names: str) -> Iterator[ast.Call]:
        """Calls of what the package has under one of these names, wherever it was imported from."""
        for call in self.all_calls:
            found = self.name(call.func)
            if found and found.split(".")[0] == package and found.split(".")[-1] in names:
                yield call

    def methods(self, *names: str) -> Iterator[ast.Call]:
        """Calls of attributes of these names on anything that is no imported module."""
        for call in self.all_calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in names and not self.name(call.func):
                yield call

    def value(self, node):
        """What a node is if that can be seen: a literal, or a name that is given one literal once. Else UNKNOWN."""
        if node is None:
            return UNKNOWN
        if isinstance(node, ast.Name):
            return self._constants.get(node.id, UNKNOWN)
        return _literal(node)

    def argument(self, call: ast.Call, name: str, position: int | None = None):
        """The node of an argument, or None where it is not given."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        if position is not None and position < len(call.args):
            return call.args[position]
        return None

    def spreads(self, call: ast.Call) -> bool:
        """Whether arguments are given that can't be seen (**options)."""
        return any(keyword.arg is None for keyword in call.keywords)

    def ancestors(self, node) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def loops(self, node) -> list[ast.AST]:
        """The loops and comprehensions around a node within its function, the inner ones first."""
        found = []
        for each in self.ancestors(node):
            if isinstance(each, SCOPES):
                break
            if isinstance(each, (*LOOPS, *COMPREHENSIONS)):
                found.append(each)
        return found

    def scope(self, node) -> ast.AST:
        """The function around a node, or the module."""
        return next((each for each in self.ancestors(node) if isinstance(each, SCOPES)), self.tree)

    def variable(self, node) -> str | None:
        """The text of the variable that a call's result is given to."""
        parent = self.parents.get(node)
        if isinstance(parent, ast.Assign) and parent.value is node:
            return ast.unparse(parent.targets[0])
        if isinstance(parent, ast.AnnAssign) and parent.value is node:
            return ast.unparse(parent.target)
        return None

    def is_within(self, node, outer) -> bool:
        return any(each is outer for each in self.ancestors(node))


def _literal(node):
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _product(node)


def _product(node):
    """Numbers that are written as products or powers: 32 * 1024, 2**16."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Pow):
        left, right = _literal(node.left), _literal(node.right)
        if all(isinstance(each, int | float) for each in (left, right)):
            if isinstance(node.op, ast.Mult):
                return left * right
            if abs(left) <= 1024 and 0 <= right <= 64:
                return left**right
    return UNKNOWN
