"""An index of a parsed file for the rules: names with the packages they come from, calls, loops, and constants."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

UNKNOWN = object()
MAX_CHARACTERS = 4 * 2**20  # characters of code in a file; larger files are skipped
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.comprehension)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)  # nodes without names
NODES = [kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.AST)]
# Fields that hold no nodes; skipping them saves time.
PLAIN = re.compile("arg|attr|conversion|ctx|id|is_async|kind|level|module|ops?|simple|type_comment")
FIELDS = {
    kind: [name for name in kind._fields if not PLAIN.fullmatch(name)] for kind in NODES if not issubclass(kind, MARKS)
}
SCOPES = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
TESTS = ("test", "tests", "testing")


class Module:
    """One parsed file. It is never imported or run."""

    def __init__(self, tree: ast.Module, text: str, path: Path | None = None):
        self.tree, self.text, self.path = tree, text, path or Path("?")
        self.parents, self.all_calls = {}, []
        self.imports, self.stars = {}, []
        self.relative = {}  # name: (level, module, imported name)
        self._constants, self.stores, self.parameters = {}, {}, set()
        self.nodes: dict[type, list[ast.AST]] = defaultdict(list)  # by type, outer nodes first
        queue = [tree]
        for node in queue:  # a single pass, since this is where most of the time goes
            self.nodes[type(node)].append(node)
            self._index(node)
            inner = children(node)
            self.parents.update(dict.fromkeys(inner, node))
            queue += inner

    def _index(self, node) -> None:
        if isinstance(node, ast.Call):
            self.all_calls.append(node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                self.imports.setdefault(alias.name, alias.name)
        elif isinstance(node, ast.ImportFrom):
            self._index_from(node)
        elif isinstance(node, ast.arg):
            self.parameters.add(node.arg)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    is_reassigned = target.id in self.stores
                    self.stores[target.id] = node.value
                    self._constants[target.id] = UNKNOWN if is_reassigned else _literal(node.value)

    def _index_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if node.level:
                self.relative[alias.asname or alias.name] = node.level, node.module or "", alias.name
            elif alias.name == "*":
                self.stars.append(node.module)
            else:
                self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    @property
    def is_test(self) -> bool:
        """Whether the file is a test, whose cost does not matter."""
        return self.path.name.startswith("test_") or bool({*self.path.parts[:-1]} & {*TESTS})

    @cached_property
    def definitions(self) -> dict[str, ast.AST]:
        """Functions and classes by name. Those at module level take precedence over nested ones."""
        nodes = [node for kind in (*FUNCTIONS, ast.ClassDef) for node in self.nodes[kind]]
        inner = {node.name: node for node in nodes if not isinstance(self.parents[node], ast.ClassDef)}
        return inner | {node.name: node for node in nodes if self.parents[node] is self.tree}

    def targets(self) -> Iterator[tuple[int, str]]:
        """The level and dotted name of each module that this one may import, enclosing packages first."""
        names = [(0, alias.name) for node in self.nodes[ast.Import] for alias in node.names]
        for node in self.nodes[ast.ImportFrom]:
            names += [(node.level, f"{node.module or ''}.{alias.name}".strip(".")) for alias in node.names]
        for level, dotted in names:
            parts = dotted.split(".")
            yield from ((level, ".".join(parts[:end])) for end in range(1, len(parts) + 1))

    def packages(self) -> set[str]:
        """The top-level names of the imported packages."""
        return {name.split(".")[0] for name in (*self.imports.values(), *self.stars)}

    def name(self, node) -> str | None:
        """The full dotted name of a Name or Attribute if its first part was imported, otherwise None."""
        parts = []
        node = node.value if isinstance(node, ast.Subscript) else node  # Collector[CollectStats]
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.imports:
            return ".".join([self.imports[node.id], *reversed(parts)])
        if not parts and self.stars and node.id not in self.stores and node.id not in self.parameters:
            return f"{self.stars[-1]}.{node.id}"
        return None

    def calls(self, package: str, *names: str) -> Iterator[ast.Call]:
        """Calls of the package's functions or classes with these names, from any of its modules."""
        for call in self.all_calls:
            full_name = self.name(call.func)
            if full_name and full_name.split(".")[0] == package and full_name.split(".")[-1] in names:
                yield call

    def methods(self, *names: str) -> Iterator[ast.Call]:
        """Calls of methods with these names on anything that is not an imported module."""
        for call in self.all_calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in names and not self.name(call.func):
                yield call

    def value(self, node):
        """The value of a node that is a literal, or a name that is assigned a literal once; otherwise UNKNOWN."""
        if node is None:
            return UNKNOWN
        if isinstance(node, ast.Name):
            return self._constants.get(node.id, UNKNOWN)
        return _literal(node)

    def argument(self, call: ast.Call, name: str, position: int | None = None):
        """The node of an argument, or None if it is not passed."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        if position is not None and position < len(call.args):
            return call.args[position]
        return None

    def spreads(self, call: ast.Call) -> bool:
        """Whether the call passes arguments that can't be seen (**options)."""
        return any(keyword.arg is None for keyword in call.keywords)

    def ancestors(self, node) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def loops(self, node) -> list[ast.AST]:
        """The loops and comprehensions around a node within its function, innermost first."""
        loops = []
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, SCOPES):
                break
            if isinstance(ancestor, (*LOOPS, *COMPREHENSIONS)):
                loops.append(ancestor)
        return loops

    def scope(self, node) -> ast.AST:
        """The function around a node, or the module."""
        return next((outer for outer in self.ancestors(node) if isinstance(outer, SCOPES)), self.tree)

    def function(self, node) -> ast.AST:
        """The function or method around a node, ignoring lambdas and classes, or the module."""
        return next((outer for outer in self.ancestors(node) if isinstance(outer, FUNCTIONS)), self.tree)

    def class_around(self, node) -> ast.ClassDef | None:
        return next((outer for outer in self.ancestors(node) if isinstance(outer, ast.ClassDef)), None)

    def variable(self, node) -> str | None:
        """The text of the variable that a call's result is assigned to."""
        parent = self.parents.get(node)
        if isinstance(parent, ast.Assign) and parent.value is node:
            return ast.unparse(parent.targets[0])
        if isinstance(parent, ast.AnnAssign) and parent.value is node:
            return ast.unparse(parent.target)
        return None

    def is_within(self, node, outer) -> bool:
        return any(ancestor is outer for ancestor in self.ancestors(node))


def children(node: ast.AST) -> list[ast.AST]:
    """Like ast.iter_child_nodes, but without `MARKS`."""
    nodes = []
    for name in FIELDS[node.__class__]:
        value = getattr(node, name, None)
        if value.__class__ is list:
            nodes += [inner for inner in value if inner.__class__ in FIELDS]
        elif value.__class__ in FIELDS:
            nodes.append(value)
    return nodes


def walk(node: ast.AST) -> list[ast.AST]:
    """Like ast.walk, but faster and without `MARKS`."""
    nodes = [node]
    for outer in nodes:
        nodes += children(outer)
    return nodes


def calls_in(node) -> list[ast.Call]:
    return [inner for inner in walk(node) if isinstance(inner, ast.Call)]


def names_in(node) -> set[str]:
    """The variables that an expression reads or binds."""
    return {inner.id for inner in walk(node) if isinstance(inner, ast.Name)}


def words_of(text: str) -> set[str]:
    """The words that the names in a text consist of: self, actor, net, next and obs for self.actorNet(next_obs)."""
    return set(re.split(r"[\W_\d]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower())) - {""}


def last_name(node) -> str:
    """The last part of a dotted name, "step" for self.env.step; "" for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _literal(node):
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _product(node)


def _product(node):
    """The value of a product or power of numbers: 32 * 1024, 2**16."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Pow):
        left, right = _literal(node.left), _literal(node.right)
        if all(isinstance(factor, int | float) for factor in (left, right)):
            if isinstance(node.op, ast.Mult):
                return left * right
            if abs(left) <= 1024 and 0 <= right <= 64:
                return left**right
    return UNKNOWN
