"""Small changes to a text, at places of its syntax tree: what cures are made of that can be written mechanically."""

import ast
import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass

from rlrepro.doctor.module import Module


@dataclass(frozen=True, order=True)
class Edit:
    """Text in the place of what lies between two places. Lines count from 1, columns from 0, in bytes of UTF-8."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def replaced(node: ast.expr, text: str) -> Edit:
    return Edit(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text)


def with_argument(module: Module, call: ast.Call, name: str, value: str) -> Edit:
    """The call with this keyword argument, given anew or after the others in their manner."""
    given = module.argument(call, name)
    if given is not None:
        return replaced(given, value)
    place, indent, last = _before_closing(module, call)
    if last == "(":
        text = f"{name}={value}"
    elif last == ",":
        text = f"\n{indent}{name}={value}," if indent else f" {name}={value}"
    else:
        text = f", {name}={value}"
    return Edit(*place, *place, text)


def imported(module: Module, statement: str) -> list[Edit]:
    """An import after those at the top of the text, or at its beginning; nothing where it is there already."""
    if statement in module.text.splitlines():
        return []
    return [_line_after(_top(module, ast.Import | ast.ImportFrom), statement)]


def first(module: Module, statements: str) -> list[Edit]:
    """Statements before everything else but the docstring and what must come first (`from __future__`)."""
    top = _top(module, ast.ImportFrom, lambda node: node.module == "__future__")
    return [_line_after(top, f"\n{statements}" if top else f"{statements}\n")]


def after(node: ast.stmt, statement: str) -> Edit:
    """A statement behind another, as far indented."""
    return Edit(
        node.end_lineno,
        node.end_col_offset,
        node.end_lineno,
        node.end_col_offset,
        f"\n{' ' * node.col_offset}{statement}",
    )


def rewritten(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits in it. One that overlaps another is left out."""
    lines = [line.encode() for line in text.split("\n")]
    before = (len(lines) + 1, 0)
    for edit in sorted(set(edits), reverse=True):
        if (edit.end_line, edit.end_column) > before:
            continue
        before = edit.line, edit.column
        head, tail = lines[edit.line - 1][: edit.column], lines[edit.end_line - 1][edit.end_column :]
        lines[edit.line - 1 : edit.end_line] = [head + edit.text.encode() + tail]
    return b"\n".join(lines).decode()


def _line_after(node: ast.stmt | None, statements: str) -> Edit:
    if node is None:
        return Edit(1, 0, 1, 0, f"{statements}\n")
    return Edit(node.end_lineno, node.end_col_offset, node.end_lineno, node.end_col_offset, f"\n{statements}")


def _top(module: Module, kinds, wanted=lambda node: True) -> ast.stmt | None:
    """The last statement of a kind among the first of the text, or its docstring."""
    found = None
    for place, node in enumerate(module.tree.body):
        docstring = place == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or (isinstance(node, kinds) and wanted(node)):
            found = node
        elif not isinstance(node, ast.Import | ast.ImportFrom | ast.If | ast.Try):
            break
    return found


def _before_closing(module: Module, call: ast.Call) -> tuple[tuple[int, int], str, str]:
    """Where the last token before the closing bracket of a call ends, how far its arguments are indented if they stand
    on lines of their own, and that token."""
    lines = module.text.split("\n")[call.lineno - 1 : call.end_lineno]
    lines[-1] = lines[-1].encode()[: call.end_col_offset].decode()
    start = call.col_offset
    lines[0] = " " * start + lines[0].encode()[start:].decode()
    quiet = (tokenize.NL, tokenize.COMMENT, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
    text = "(" + "\n".join(lines) + ")"  # an expression over several lines
    tokens = [each for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.type not in quiet]
    last = tokens[-3]  # before the call's own bracket, and the one put around it
    line, column = last.end
    column -= line == 1  # the bracket put before it
    place = (call.lineno + line - 1, len(lines[line - 1][:column].encode()))
    own_line = last.end[0] < tokens[-2].start[0]
    written = lines[line - 1]
    indent = written[: len(written) - len(written.lstrip())] if own_line and line > 1 else ""
    return place, indent, last.string
