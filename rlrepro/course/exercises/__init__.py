"""Guesses before a measurement and exercises after it: `reveal` and `check`.

Each chapter has a file with the checks of its exercises; the solutions are in `book/solutions/`.
"""

from rlrepro.course.exercises.core import check
from rlrepro.course.exercises.guesses import reveal

__all__ = ["check", "reveal"]
