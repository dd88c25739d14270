"""The code of a notebook as one text, with magics and shell commands replaced by `pass`."""

import ast
import json
import re
from itertools import pairwise

ASSIGNED = re.compile(r"^(\s*[\w, ]+=\s*)[!%].*$")  # files = !ls
RUNS_CELL = re.compile(r"%%(time|timeit|capture|prun|memit|mprun|snakeviz|pyinstrument|debug|python3?|pypy)\b")


def code_of(content: bytes) -> tuple[str, tuple[tuple[int, int], ...]]:
    """(text, the start of each code cell as (line, cell number)). Raises ValueError, KeyError, TypeError or
    AttributeError if the content is not a notebook."""
    lines, starts = [], []
    for number, cell in enumerate(json.loads(content)["cells"]):
        if cell.get("cell_type") == "code":
            starts.append((len(lines) + 1, number))
            lines += without_magics(source_of(cell))
    return "\n".join(lines) + "\n", tuple(starts)


def source_of(cell: dict) -> str:
    """The text of a cell, which the format stores as one string or as a list of lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def without_magics(text: str) -> list[str]:
    """The lines of a cell, with magics and shell commands (including continuation lines) replaced one by one. The code
    below a magic such as `%%time` is kept; below others, such as `%%bash`, it is not Python."""
    text = text.removesuffix("\n")
    if text.lstrip().startswith("%%") and not RUNS_CELL.match(text.lstrip()):
        return [f"pass  # {line}" for line in text.split("\n")]
    lines, continued = [], False
    for line in text.split("\n"):
        stripped = line.lstrip()
        is_magic = continued or stripped.startswith(("%", "!", "?")) or (stripped.endswith("?") and "#" not in stripped)
        if is_magic:
            indent = line[: len(line) - len(stripped)] * (not continued)
            line, continued = f"{indent}pass  # {stripped}", stripped.rstrip().endswith("\\")
        elif match := ASSIGNED.match(line):
            line, continued = f"{match[1]}None", stripped.rstrip().endswith("\\")
        lines.append(line)
    return lines


def without_broken_cells(text: str, starts: tuple[tuple[int, int], ...]) -> tuple[str, tuple[int, ...]]:
    """(text, numbers of the replaced lines): the lines of each cell that can't be parsed are replaced by `pass`. Raises
    SyntaxError if no cell can be parsed."""
    lines, replaced, last_error = text.split("\n"), [], None
    for (first, _), (end, _) in pairwise([*starts, (len(lines), 0)]):
        try:
            ast.parse("\n".join(lines[first - 1 : end - 1]))
        except SyntaxError as error:
            last_error = error
            replaced += range(first, end)
            lines[first - 1 : end - 1] = ["pass"] * (end - first)
    if last_error and len(replaced) == len(lines) - 1:
        raise last_error
    return "\n".join(lines), tuple(replaced)
