"""Guesses before a measurement, and exercises after it: `reveal` and `check`.

One file a chapter holds what its exercises ask for; the solutions are in `book/solutions/`.
"""

from rlrepro.course.exercises.core import check
from rlrepro.course.exercises.guesses import reveal

__all__ = ["check", "reveal"]
