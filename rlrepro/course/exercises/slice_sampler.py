"""Exercises of chapter 3: SliceSampler."""

import numpy as np

from rlrepro.cases.slice_sampler import BUGGY, NEWEST
from rlrepro.course.exercises.core import Hint, exercise, how_far, near


@exercise("3.1")
def starts(my_starts, records):
    """A function of (length, slice_len): in how many places a slice can begin."""
    for length, slice_len in ((500, 4), (4, 4), (2, 4), (10, 1)):
        expected = max(0, length - slice_len + 1)
        if (found := my_starts(length, slice_len)) != expected:
            raise Hint(
                f"An episode of {length} rows and slices of {slice_len}: {found} is not right. Count on your fingers."
            )


@exercise("3.2")
def bytes_moved(my_bytes, records):
    """A function of (release, stored, id_bytes): bytes that one sample moves."""
    records.get("slice_sampler.moved", release=BUGGY), records.get("slice_sampler.moved", release=NEWEST)
    for record in records.all("slice_sampler.moved"):
        size = {"bool": 1, "int32": 4, "int64": 8}[record.setting["dtype"]]
        found = my_bytes(record.setting["release"], record.setting["stored"], size)
        if not near(found, record.value, 0.15):
            raise Hint(
                f"{record.setting['release']} with ids of {size} bytes: {found:,.0f} is {how_far(found, record.value)} "
                "(by over 15%). How often are ids read, how often flags?"
            )


@exercise("3.3")
def episodes_in_a_ring(my_episodes, records):
    """A function of (capacity, written, episode): (last row, rows left) of each finished episode still in the ring."""
    for capacity, written, episode in ((8, 10, 4), (8, 11, 4), (8, 8, 4), (10, 25, 3), (8, 3, 4), (4, 13, 6)):
        ring = np.full(capacity, -1)
        for step in range(written):
            ring[step % capacity] = step // episode
        whole = [number for number in range(written // episode) if number in ring]
        expected = [((number * episode + episode - 1) % capacity, int((ring == number).sum())) for number in whole]
        if (found := [tuple(each) for each in my_episodes(capacity, written, episode)]) != expected:
            raise Hint(
                f"{written} rows written to a ring of {capacity}, in episodes of {episode}: not {found}. "
                "The oldest first; one that has not ended does not count; of the oldest some rows may be gone."
            )


@exercise("3.4")
def rows_for_a_time(my_stored, records):
    """A function of (records, seconds): rows stored at which the newest release takes that long in the online loop."""
    times = records.series("slice_sampler.online", "stored", release=NEWEST, sampler="episode")
    (first, fast), (last, slow) = next(iter(times.items())), list(times.items())[-1]
    middle = (fast * slow) ** 0.5, (first * last) ** 0.5
    for seconds, expected, factor in ((fast, first, 1.25), (slow, last, 1.25), (*middle, 3)):
        found = my_stored(records, seconds)
        if not expected / factor < found < expected * factor:
            raise Hint(
                f"At {seconds * 1e3:.3g} ms, {found:,.0f} rows are {how_far(found, expected)}. A straight line between "
                "the logarithms of two measured points is enough."
            )
