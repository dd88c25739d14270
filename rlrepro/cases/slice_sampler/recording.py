"""From seconds of samplers that took turns to records."""

import numpy as np

from rlrepro.evidence import RecordBook
from rlrepro.lab import Comparison

SPREAD = (0.1, 0.9)  # quantiles


def keep_times(book: RecordBook, name: str, seconds: dict[str, list[float]], **setting) -> None:
    """A record of the median for each sampler."""
    for sampler, taken in seconds.items():
        book.add(name, np.median(taken), "s", spread=tuple(np.quantile(taken, SPREAD)), sampler=sampler, **setting)


def keep_ratio(book: RecordBook, name: str, slow: list[float], fast: list[float], **setting) -> Comparison:
    """A record of the median of `slow` over `fast`, turn by turn."""
    found = Comparison(tuple(slow), tuple(fast))
    book.add(name, found.ratio, "ratio", spread=(found.low, found.high), **setting)
    return found
