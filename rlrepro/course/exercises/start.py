"""Exercises of chapter 0: the instruments."""

import torch
from torch import nn

from rlrepro.course.exercises.core import Hint, exercise, how_far, near
from rlrepro.evidence.claims import Claim
from rlrepro.evidence.records import Records
from rlrepro.fixes import in_chunks
from rlrepro.lab.memory import peak_memory


@exercise("0.1")
def peak_of_rows(my_peak, records):
    """A function: the peak in bytes of the page's network with that many rows."""
    for rows in (1000, 2000, 1):
        expected = records.get("start.peak", chunk=1000).value * rows / 1000
        if not near(actual := my_peak(rows), expected, 0.05):
            raise Hint(
                f"With {rows:,} rows, your {actual:,.0f} bytes is {how_far(actual, expected)}. Which two tensors are "
                "live at once, how many numbers does each have, and how many bytes does a number take?"
            )


@exercise("0.2")
def largest_chunk(my_size, records):
    """The largest chunk size with which the page's network needs at most 4 MiB for 1,000 rows."""
    limit = 4 * 2**20
    network, rows = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 1)), torch.zeros(1000, 256)

    def peak_bytes(size):
        with torch.no_grad():
            return peak_memory(lambda: in_chunks(network, rows, size=size), device="cpu").peak_bytes

    if peak_bytes(my_size) > limit:
        raise Hint("With chunks of that size, the peak is above 4 MiB. What grows with the chunk?")
    if peak_bytes(my_size + 2) <= limit:
        raise Hint("It fits, but so does a slightly larger chunk.")


@exercise("0.3")
def a_judge_of_time(my_judge, records):
    """A judge of "chunks take at most twice the time", from the record start.time_ratio and its spread."""
    measured = records.get("start.time_ratio")
    for low, high, expected in ((0.9, 1.3, "supported"), (2.5, 3.0, "refuted"), (1.5, 2.6, "partly")):
        changed = measured.model_copy(update={"value": (low + high) / 2, "spread": (low, high)})
        outcome = my_judge(Records([changed])).outcome
        if outcome != expected:
            raise Hint(
                f"If the ratio lies between {low} and {high}, your judge returns {outcome!r}. It can only decide if "
                "the whole spread is on one side of 2."
            )
    if Claim("", "", "", "", my_judge).verdict(Records()).outcome != "not testable here":
        raise Hint("Without records there is no verdict: use records.get, which raises MissingRecord.")
