"""Exercises of chapter 8: the search for NaN."""

import numpy as np

from rlrepro.cases.common.networks import FRAMES
from rlrepro.course.exercises.core import Hint, exercise, how_far, near


@exercise("8.1")
def copied_bytes(my_bytes, records):
    """A function of (stored): the bytes of stacked frames that one search copies out of the buffer."""
    for record in records.all("nan_scan.scan_memory", kind="frames", incremental=False):
        stored = record.setting["stored"]
        expected, actual = 2 * int(np.prod(FRAMES)) * stored, my_bytes(stored)
        if actual > record.value:
            raise Hint(f"With {stored:,} stored, {actual:,.0f} bytes is more than the {record.value:,} that it takes.")
        if actual != expected:
            raise Hint(f"With {stored:,} stored, {actual:,.0f} is {how_far(actual, expected)}. What else has frames?")


@exercise("8.2")
def seconds_of_an_epoch(my_epoch, records):
    """A function of (steps, collect, capacity, rate): the seconds of all searches of an epoch."""
    for steps, collect, capacity, rate in ((100, 10, 1000, 1e-3), (1000, 10, 200, 1e-4), (1000, 1, 500, 1e-6)):
        stored = np.minimum(np.arange(collect, steps + 1, collect), capacity)
        expected, actual = rate * stored.sum(), my_epoch(steps, collect, capacity, rate)
        if not near(actual, expected, 0.01):
            outcome = "fills up" if steps > capacity else "does not fill up"
            raise Hint(
                f"{steps} steps, capacity {capacity}: {actual:.3g} s is {how_far(actual, expected)}. The buffer "
                f"{outcome}."
            )


class Watched:
    """An array that records which of its rows were read."""

    def __init__(self, values):
        self.values, self.read = values, set()

    def __len__(self):
        return len(self.values)

    def __getitem__(self, rows):
        self.read.update(np.atleast_1d(np.arange(len(self))[rows]).tolist())
        return self.values[rows]


@exercise("8.3")
def only_these_rows(my_check, records):
    """A function of (arrays, rows): whether one of these rows has a NaN, in arrays that may be nested in dicts."""
    for bad_row, leaf_index, rows in ((None, 0, [1, 4]), (4, 0, [1, 4]), (4, 1, [1, 4]), (2, 0, [1, 4])):
        leaves = [Watched(np.zeros((6, 3))), Watched(np.zeros(6)), Watched(np.zeros(6, np.uint8))]
        if bad_row is not None:
            leaves[leaf_index].values[bad_row] = np.nan
        actual = my_check({"obs": {"place": leaves[0]}, "rew": leaves[1], "done": leaves[2]}, np.array(rows))
        if bool(actual) != (bad_row in rows):
            place = "no NaN" if bad_row is None else f"a NaN in transition {bad_row}"
            raise Hint(f"Called for transitions {rows}, with {place}, your function returns {actual}.")
        if any(leaf.read - {*rows} for leaf in leaves):
            raise Hint(f"It was called with the transitions {rows}, and read others.")
