"""Text edits at nodes of a syntax tree: the building blocks of automatic fixes."""

import ast
import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass

from rlrepro.doctor.ast_index import Module


@dataclass(frozen=True, order=True)
class Edit:
    """Replaces a range of a text. Lines count from 1, columns from 0 and in UTF-8 bytes."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def replaced(node: ast.expr, text: str) -> Edit:
    return Edit(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text)


def with_argument(module: Module, call: ast.Call, name: str, value: str) -> list[Edit]:
    """Set a keyword argument of a call: replace its constant value, or append it in the style of the other arguments.
    No edits if the argument is passed as anything but a constant."""
    argument = module.argument(call, name)
    if argument is not None:
        return [replaced(argument, value)] if isinstance(argument, ast.Constant) else []
    position, indent, last = _before_closing(module, call)
    if last == "(":
        text = f"{name}={value}"
    elif last == ",":
        text = f"\n{indent}{name}={value}," if indent else f" {name}={value}"
    else:
        text = f", {name}={value}"
    return [Edit(*position, *position, text)]


def imported(module: Module, statement: str, *, beside: str) -> list[Edit] | None:
    """Add an import below those of a package. An empty list if it exists already; None if the package is not imported
    at the top of the file on a separate line."""
    if statement in module.text.split("\n"):
        return []
    imports = [node for node in _top_imports(module) if beside in _packages(node)]
    return [after(module, imports[-1], statement)] if imports and stands_alone(module, imports[-1]) else None


def is_imported(module: Module, name: str) -> bool:
    """Whether the file has `import name` at its top level."""
    imports = [node for node in _top_imports(module) if isinstance(node, ast.Import)]
    return any(alias.name == name and alias.asname is None for node in imports for alias in node.names)


def before_imports(module: Module, statements: str) -> list[Edit]:
    """Insert statements before the first import that is not from `__future__`; no edits if it shares its line."""
    first = next((node for node in _top_imports(module) if getattr(node, "module", None) != "__future__"), None)
    if first is None or not stands_alone(module, first):
        return []
    return [Edit(first.lineno, 0, first.lineno, 0, f"{statements}\n\n")]


def after(module: Module, node: ast.stmt, statement: str) -> Edit:
    """Insert a statement below another, with the same indentation."""
    first_line, last_line = (module.text.split("\n")[number - 1] for number in (node.lineno, node.end_lineno))
    end = len(last_line.rstrip("\r").encode())
    indent = first_line[: len(first_line) - len(first_line.lstrip())]
    return Edit(node.end_lineno, end, node.end_lineno, end, f"\n{indent}{statement}")


def stands_alone(module: Module, node: ast.stmt) -> bool:
    """Whether nothing but a comment shares the lines of a statement."""
    lines = module.text.split("\n")
    leading = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    trailing = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode().strip()
    return not leading.strip() and (not trailing or trailing.startswith("#"))


def rewritten(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits applied. Of two overlapping edits, only the later one in the text is applied."""
    lines = [line.encode() for line in text.split("\n")]
    next_start = (len(lines) + 1, 0)
    for edit in sorted(set(edits), reverse=True):
        if (edit.end_line, edit.end_column) > next_start:
            continue
        next_start = edit.line, edit.column
        head, tail = lines[edit.line - 1][: edit.column], lines[edit.end_line - 1][edit.end_column :]
        replacement = edit.text.replace("\n", "\r\n") if "\r\n" in text else edit.text
        lines[edit.line - 1 : edit.end_line] = [head + replacement.encode() + tail]
    return b"\n".join(lines).decode()


def _top_imports(module: Module) -> list[ast.stmt]:
    return [node for node in module.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]


def _packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return {name.split(".")[0] for name in names}


def _before_closing(module: Module, call: ast.Call) -> tuple[tuple[int, int], str, str]:
    """(end of the last token before a call's closing bracket, indentation of the arguments if they are on separate
    lines, that token)."""
    lines = module.text.split("\n")[call.lineno - 1 : call.end_lineno]
    lines[-1] = lines[-1].encode()[: call.end_col_offset].decode()
    start = call.col_offset
    lines[0] = " " * start + lines[0].encode()[start:].decode()
    ignored = (tokenize.NL, tokenize.COMMENT, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
    text = "(" + "\n".join(lines) + ")"  # an expression over several lines
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in ignored]
    last = tokens[-3]  # before the call's own closing bracket and the added one
    line, column = last.end
    column -= line == 1  # the added opening bracket
    position = (call.lineno + line - 1, len(lines[line - 1][:column].encode()))
    on_own_line = last.end[0] < tokens[-2].start[0]
    last_line = lines[line - 1]
    indent = last_line[: len(last_line) - len(last_line.lstrip())] if on_own_line and line > 1 else ""
    return position, indent, last.string
