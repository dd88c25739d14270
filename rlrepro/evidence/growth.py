"""How a measured quantity grows with a size."""

from collections.abc import Iterable

import numpy as np

from rlrepro.evidence.records import MissingRecord


def growth_exponent(sizes: Iterable[float], values: Iterable):
    """k of the least-squares fit value = c * size**k on logarithms: 0 is constant, 1 linear.

    Each value may also be an array, as if each of its elements were a measurement of its own.
    Raises MissingRecord if there are fewer than two different sizes.
    """
    sizes = list(sizes)
    if len(set(sizes)) < 2:
        raise MissingRecord(f"growth needs measurements at two or more sizes, found {sizes}")
    exponent = np.polyfit(np.log(sizes), np.log(list(values)), 1)[0]
    return np.round(exponent, 12) + 0.0  # the last bits depend on the processor: -1e-17 would be printed as -0.00
