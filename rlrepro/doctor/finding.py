"""Findings, and the rules behind them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, order=True)
class Finding:
    """One problem at one place. `line` and `column` count from 1, in a notebook within the cell `cell`."""

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


def finding_at(code: str, place, message: str, confidence: Confidence = "high") -> Finding:
    """A finding of a training run, at a line of its code."""
    return Finding(place.path, None, place.line, 1, code, message, confidence)


@dataclass(frozen=True)
class Rule:
    """A kind of problem: how it is found, why it matters, and what to change.

    `claims` are the ids of the claims that measured its cost, `chapter` is the notebook that explains it. Files that
    contain none of the `words` are ignored.
    """

    code: str
    title: str
    fix: str
    chapter: str
    claims: tuple[str, ...]
    words: tuple[str, ...]
    check: Callable
    live: bool = False  # checks a training run instead of a file
    autofix: Callable | None = None
    fix_when_low: bool = False  # whether `autofix` is also safe at low confidence

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
    """Register a function `(module, project)` that yields (node, message, confidence) for each place. A live rule is
    called with the notes of a run instead, and yields findings. `autofix(module, node)` returns the edits that fix a
    place, if they are safe to write without understanding the program."""

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
