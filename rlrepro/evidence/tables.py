"""Tables in Markdown, for notebooks and the site."""

from collections.abc import Iterable, Sequence


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with these column names; line breaks and bars in a cell don't break it."""
    return "\n".join([_line(columns), "|" + "---|" * len(columns), *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(str(cell).split()).replace("|", "\\|") for cell in cells) + " |"
