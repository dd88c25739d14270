"""The code of a notebook as one text, with magics and shell commands replaced by `pass`."""

import json
import re

ASSIGNED = re.compile(r"^(\s*[\w, ]+=\s*)[!%].*$")  # files = !ls


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
    """The lines of a cell, with magics and shell commands (including continuation lines) replaced one by one."""
    is_cell_magic = text.lstrip().startswith("%%")
    lines, continued = [], False
    for line in text.removesuffix("\n").split("\n"):
        stripped = line.lstrip()
        is_magic = (
            is_cell_magic
            or continued
            or stripped.startswith(("%", "!", "?"))
            or (stripped.endswith("?") and "#" not in stripped)
        )
        if is_magic:
            indent = line[: len(line) - len(stripped)] * (not continued)
            line, continued = f"{indent}pass  # {stripped}", stripped.rstrip().endswith("\\")
        elif match := ASSIGNED.match(line):
            line, continued = f"{match[1]}None", stripped.rstrip().endswith("\\")
        lines.append(line)
    return lines
