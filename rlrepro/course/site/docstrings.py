"""A Sphinx extension: docstrings as this project writes them, as reStructuredText.

Arguments stand in columns, a name and two or more spaces and what it means; that becomes a definition list. What is
indented is code.
"""

import re

COLUMNS = re.compile(r"(?P<name>\S+(?: \S+)*?(?<![.:;]))\s{2,}(?P<text>\S.*)")


def as_restructured_text(lines: list[str]) -> list[str]:
    """The lines with each block of columns as a definition list, and nothing read as markup that is not meant so."""
    found, block = [], []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
            continue
        found += [*_block(block), ""]
        block = []
    return found


def _block(lines: list[str]) -> list[str]:
    if lines and all(line.startswith("    ") for line in lines):
        return ["::", "", *lines]
    if not lines or not COLUMNS.fullmatch(lines[0]):
        return [_escape(line) for line in lines]
    found = []
    for line in lines:
        if columns := COLUMNS.fullmatch(line):
            found += [f"`{columns['name']}`", f"    {_escape(columns['text'])}"]
        else:
            found.append(f"    {_escape(line.strip())}")
    return found


def _escape(line: str) -> str:
    """Stars and bars as themselves, outside of what stands in backticks."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else re.sub(r"([*|])", r"\\\1", part) for part in parts)


def _process(app, what, name, obj, options, lines):
    lines[:] = as_restructured_text(lines)


def setup(app):
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
