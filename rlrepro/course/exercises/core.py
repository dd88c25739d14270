"""Exercises: how they are registered, and how an answer is checked."""

import importlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from rlrepro.cases import chapters
from rlrepro.evidence.records import MissingRecord, Records

CHAPTERS = {"0": "start", "6": "verdicts"} | chapters()  # by number; the file with its exercises
_checkers: dict[str, Callable] = {}


class Hint(Exception):
    """What is wrong with an answer, without giving away the right one."""


@dataclass(frozen=True)
class Checked:
    """Whether an answer is right, and the message for the reader."""

    right: bool
    message: str


def exercise(number: str):
    """Register a function `(answer, records)` that returns if the answer is right, and raises Hint otherwise."""

    def register(checker):
        _checkers[number] = checker
        return checker

    return register


def exercises(chapter: str) -> dict[str, Callable]:
    """The checkers of a chapter by number, "chapter.exercise". Raises KeyError if there are none."""
    if chapter not in CHAPTERS:
        raise KeyError(f"no chapter {chapter!r}; there are {', '.join(CHAPTERS)}")
    if not (file := Path(__file__).with_name(f"{CHAPTERS[chapter]}.py")).exists():
        raise KeyError(f"chapter {chapter} has no exercises: expected them in {file}")
    importlib.import_module(f"rlrepro.course.exercises.{CHAPTERS[chapter]}")
    return {number: checker for number, checker in sorted(_checkers.items()) if number.split(".")[0] == chapter}


def judge(number: str, answer, records: Records | None = None) -> Checked:
    """Check an answer. An exception in the answer becomes a message; an unknown exercise raises KeyError."""
    checkers = exercises(number.split(".")[0])
    if number not in checkers:
        raise KeyError(f"no exercise {number!r}; there are {', '.join(checkers)}")
    if answer is None:
        return Checked(False, "not answered yet. Replace None with your answer and run this cell again.")
    try:
        with torch.random.fork_rng(devices=[]):  # the reader's own random numbers stay as they are
            checkers[number](answer, Records() if records is None else records)
    except Hint as hint:
        return Checked(False, f"not yet. {hint}")
    except MissingRecord as missing:
        return Checked(False, f"can't be checked: {missing}. Run the cells above first.")
    except Exception as error:
        return Checked(False, f"your answer could not be used: {type(error).__name__}: {error}{_where(error)}")
    return Checked(True, "right.")


def _where(error: Exception) -> str:
    """The last line of the reader's own code in the traceback."""
    package, frames = Path(__file__).parents[2], traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if package not in Path(frame.filename).parents]
    return f" (line {frames[-1].lineno}: {frames[-1].line})" if frames and frames[-1].line else ""


def check(number: str, answer, records: Records | None = None) -> None:
    """Print whether the answer to an exercise is right, or what is wrong with it.

    Args:
        number: the exercise, such as "2.1"
        answer: None if there is none yet; otherwise a number, a word or a function, as the exercise asks
        records: the chapter's records, if the answer is compared with measurements
    """
    checked = judge(number, answer, records)
    print(f"{'✓' if checked.right else '✗'} Exercise {number}: {checked.message}")


def near(answer: float, expected: float, tolerance: float = 0.01) -> bool:
    """Whether a number differs from the expected one by at most that fraction."""
    return abs(answer - expected) <= tolerance * abs(expected)


def how_far(answer: float, expected: float) -> str:
    """In which direction a number is off, and roughly by how much: a hint that does not give away the answer."""
    if answer <= 0:
        return "not a positive number"
    factor = max(answer, expected) / min(answer, expected)
    direction = "too large" if answer > expected else "too small"
    if factor < 1.5:
        return f"slightly {direction}"
    return f"{direction} {'by a factor of a few' if factor < 10 else 'by orders of magnitude'}"
