"""Parse Python with newer syntax or a few damaged lines."""

import ast
import re

ATTEMPTS = 12  # lines that are skipped before the whole file is given up
TYPE_PARAMETERS = re.compile(r"^(\s*(?:async\s+)?(?:def|class)\s+\w+)(\[[^\]\n]*\])", re.MULTILINE)
# Exceptions without parentheses, which are valid since Python 3.14.
EXCEPTIONS = re.compile(r"^(\s*except\b)([^:(]*,[^:()]*):", re.MULTILINE)


def parse(text: str) -> tuple[ast.Module, tuple[int, ...]]:
    """(tree, numbers of the skipped lines). Lines and columns are those of the text. Raises SyntaxError if more than a
    dozen lines can't be parsed, and ValueError for null bytes."""
    try:
        return ast.parse(text), ()
    except SyntaxError as error:
        first_error = error
    for pattern in (TYPE_PARAMETERS, EXCEPTIONS):
        text = pattern.sub(_blank_second_group, text)
    lines = text.split("\n")
    skipped = []
    for _ in range(ATTEMPTS):
        try:
            return ast.parse("\n".join(lines)), tuple(skipped)
        except SyntaxError as error:
            number = error.lineno
            if number is None or not 0 < number <= len(lines) or number in skipped or not lines[number - 1].strip():
                raise first_error from None
            line = lines[number - 1]
            indent = line[: len(line) - len(line.lstrip())]
            lines[number - 1] = indent + ("if True:" if line.split("#")[0].rstrip().endswith(":") else "pass")
            skipped.append(number)
            if 2 * len(skipped) > sum(bool(line.strip()) for line in lines):
                break  # too little is left to judge the file
    raise first_error


def _blank_second_group(match: re.Match) -> str:
    return match[1] + " " * len(match[2]) + match[0][len(match[1] + match[2]) :]
