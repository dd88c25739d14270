"""What an exercise is, and how an answer is checked."""

import importlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from rlrepro.evidence.records import MissingRecord, Records

CHAPTERS = {
    "0": "start",
    "1": "two_batch_sizes",
    "2": "logp_old",
    "3": "slice_sampler",
    "4": "parallel_training",
    "5": "large_actions",
    "6": "verdicts",
    "7": "own_code",
}
_judges: dict[str, Callable] = {}


class Hint(Exception):
    """What is wrong with an answer, without saying what is right."""


@dataclass(frozen=True)
class Checked:
    """Whether an answer is right, and what is said to whoever gave it."""

    right: bool
    message: str


def exercise(number: str):
    """Register a function `(answer, records)` that returns where the answer is right, and raises Hint elsewhere."""

    def register(judge):
        _judges[number] = judge
        return judge

    return register


def exercises(chapter: str) -> dict[str, Callable]:
    """The exercises of a chapter by number, "chapter.exercise". Raises KeyError where there is no such chapter."""
    importlib.import_module(f"rlrepro.course.exercises.{CHAPTERS[chapter]}")
    return {number: each for number, each in sorted(_judges.items()) if number.split(".")[0] == chapter}


def judge(number: str, answer, records: Records | None = None) -> Checked:
    """Check an answer; what the answer itself raises is told. Raises KeyError where there is no such exercise."""
    judges = exercises(number.split(".")[0])
    if number not in judges:
        raise KeyError(f"no exercise {number!r}; there are {', '.join(judges)}")
    if answer is None:
        return Checked(False, "not answered yet. Put your answer in the place of None, and run this cell again.")
    try:
        with torch.random.fork_rng(devices=[]):  # the reader's own random numbers stay as they are
            judges[number](answer, Records() if records is None else records)
    except Hint as hint:
        return Checked(False, f"not yet. {hint}")
    except MissingRecord as missing:
        return Checked(False, f"can't be checked: {missing}. Run the cells above first.")
    except Exception as error:
        return Checked(False, f"your answer could not be used: {type(error).__name__}: {error}{_where(error)}")
    return Checked(True, "right.")


def _where(error: Exception) -> str:
    """The last line of the reader's own code on the way to the error."""
    ours = Path(__file__).parents[2]
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if ours not in Path(frame.filename).parents]
    return f" (line {own[-1].lineno}: {own[-1].line})" if own and own[-1].line else ""


def check(number: str, answer, records: Records | None = None) -> None:
    """Print whether the answer to an exercise is right, or what is wrong with it.

    number   the exercise, as "2.1"
    answer   None where there is none yet; else a number, a word, or a function, as the exercise asks
    records  of the chapter, `book.records`, where the answer is held against measurements
    """
    checked = judge(number, answer, records)
    print(f"{'✓' if checked.right else '✗'} Exercise {number}: {checked.message}")


def near(found: float, expected: float, tolerance: float = 0.01) -> bool:
    """Whether a number is right up to that fraction."""
    return abs(found - expected) <= tolerance * abs(expected)


def how_far(found: float, expected: float) -> str:
    """Which way a number is off, and roughly how far: a hint that does not give it away."""
    if found <= 0:
        return "not a positive number"
    factor = max(found, expected) / min(found, expected)
    far = "a little" if factor < 1.5 else "by a factor of a few" if factor < 10 else "by orders of magnitude"
    return f"too {'large' if found > expected else 'small'}, {far}"
