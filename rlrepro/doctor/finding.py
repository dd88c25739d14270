"""What a finding is, and the rule behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, order=True)
class Finding:
    """One problem at one place. `line` and `column` count from 1; in a notebook they are of the cell `cell`."""

    path: str
    cell: int | None
    line: int
    column: int
    code: str
    message: str
    confidence: Confidence

    @property
    def place(self) -> str:
        cell = f"cell {self.cell}:" if self.cell is not None else ""
        return f"{self.path}:{cell}{self.line}:{self.column}"

    def __str__(self) -> str:
        return f"{self.place}: {self.code} {self.message} [{self.confidence}]"


@dataclass(frozen=True)
class Rule:
    """A problem that can be seen in a text: how it is found, what it costs, and what to change.

    `claims` are the ids of claims whose verdicts measured the cost, `chapter` the notebook that explains it. A text
    without any of the `words` is not looked at.
    """

    code: str
    title: str
    fix: str
    chapter: str
    claims: tuple[str, ...]
    words: tuple[str, ...]
    check: Callable
    live: bool = False  # seen in a run, not in a text
    autofix: Callable | None = None
    fix_when_low: bool = False  # whether `autofix` is as right where the confidence is low

    @property
    def why(self) -> str:
        return " ".join((self.check.__doc__ or "").split())


_rules: dict[str, Rule] = {}


def rule(
    code: str,
    title: str,
    *,
    words: tuple[str, ...],
    fix: str,
    chapter: str,
    claims: tuple[str, ...] = (),
    live: bool = False,
    autofix: Callable | None = None,
    fix_when_low: bool = False,
):
    """Register a function `(module, project)` that yields (node, message, confidence) for each place; a live one is
    called with what was seen of a run, and yields findings. `autofix(module, node)` returns the edits that fix a place,
    where that is safe to write without understanding the program."""

    def register(check):
        _rules[code] = Rule(code, title, fix, chapter, claims, words, check, live, autofix, fix_when_low)
        return check

    return register


def all_rules() -> dict[str, Rule]:
    """Every rule by its code."""
    import importlib
    import pkgutil

    import rlrepro.doctor.rules as package

    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_rules.items()))
