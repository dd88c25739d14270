"""Exercises of chapter 3: SliceSampler."""

import numpy as np

from rlrepro.cases.slice_sampler import BUGGY, NEWEST
from rlrepro.course.exercises.core import Hint, exercise, how_far, near


@exercise("3.1")
def starts(my_starts, records):
    """A function of (length, slice_len): at how many positions a slice can begin."""
    for length, slice_len in ((500, 4), (4, 4), (2, 4), (10, 1)):
        expected = max(0, length - slice_len + 1)
        if (actual := my_starts(length, slice_len)) != expected:
            raise Hint(
                f"For an episode of {length} transitions and slices of {slice_len}, {actual} is not right. Draw a "
                "short episode and count."
            )


@exercise("3.2")
def bytes_moved(my_bytes, records):
    """A function of (release, stored, id_bytes): bytes that one sample moves."""
    records.get("slice_sampler.moved", release=BUGGY), records.get("slice_sampler.moved", release=NEWEST)
    for record in records.all("slice_sampler.moved"):
        size = {"bool": 1, "int32": 4, "int64": 8}[record.setting["dtype"]]
        actual = my_bytes(record.setting["release"], record.setting["stored"], size)
        if not near(actual, record.value, 0.15):
            raise Hint(
                f"{record.setting['release']} with ids of {size} bytes: {actual:,.0f} is "
                f"{how_far(actual, record.value)} (by over 15%). How often are ids read, and how often flags?"
            )


@exercise("3.3")
def episodes_in_a_ring(my_episodes, records):
    """A function of (capacity, written, episode): (place of the last transition, transitions left) of each finished
    episode that is still in the ring."""
    for capacity, written, episode in ((8, 10, 4), (8, 11, 4), (8, 8, 4), (10, 25, 3), (8, 3, 4), (4, 13, 6)):
        ring = np.full(capacity, -1)
        for step in range(written):
            ring[step % capacity] = step // episode
        finished = [number for number in range(written // episode) if number in ring]
        expected = [((number * episode + episode - 1) % capacity, int((ring == number).sum())) for number in finished]
        if (actual := [tuple(pair) for pair in my_episodes(capacity, written, episode)]) != expected:
            raise Hint(
                f"After {written} transitions in episodes of {episode}, written to a ring of {capacity}, {actual} is "
                "not right. Begin with the oldest episode, of which some transitions may be gone; leave out the one "
                "that has not ended."
            )


@exercise("3.4")
def stored_for_a_time(my_stored, records):
    """A function of (records, seconds): how many transitions are stored when the newest release takes that long in the
    online loop."""
    times = records.series("slice_sampler.online", "stored", release=NEWEST, sampler="episode")
    (first, fast), (last, slow) = next(iter(times.items())), list(times.items())[-1]
    middle = (fast * slow) ** 0.5, (first * last) ** 0.5
    for seconds, expected, factor in ((fast, first, 1.25), (slow, last, 1.25), (*middle, 3)):
        actual = my_stored(records, seconds)
        if not expected / factor < actual < expected * factor:
            raise Hint(
                f"At {seconds * 1e3:.3g} ms, {actual:,.0f} transitions is {how_far(actual, expected)}. A straight "
                "line between the logarithms of two measured points is enough."
            )
