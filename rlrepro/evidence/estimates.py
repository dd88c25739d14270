"""Numbers that are computed from measured times, with the interval in which noise may move them."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from rlrepro.evidence.records import MissingRecord, Record
from rlrepro.lab.units import number

TIMED = ("s", "ratio")  # units of what differs from run to run
RESAMPLES = 1_000
CONFIDENCE = (0.025, 0.975)  # quantiles


class Estimate(float):
    """A float with the `interval` that its samples allow; None if something was measured only once."""

    def __new__(cls, value: float, interval: tuple[float, float] | None = None, *, exact: bool = False):
        instance = super().__new__(cls, value)
        instance.interval, instance.exact = interval, exact
        return instance

    def __format__(self, spec: str) -> str:
        return float.__format__(self, spec) if spec else str(self)

    def __str__(self) -> str:
        if self.exact:
            return number(self)
        if not self.interval:
            return f"{number(self)} (one measurement)"
        return f"{number(self)} ({number(self.interval[0])} to {number(self.interval[1])})"


def estimate(statistic: Callable, *measured: Record | Sequence[Record]) -> Estimate:
    """`statistic` of measured values, with a 95 % interval by the bootstrap.

    Args:
        statistic: a function of as many values as there are `measured`; it also takes arrays of them
        measured: a record with its samples, or several records of the same quantity, whose median counts
    """
    groups = [[measurement] if isinstance(measurement, Record) else list(measurement) for measurement in measured]
    value = float(statistic(*(np.median([record.value for record in group]) for group in groups)))
    timed = [group[0].unit in TIMED for group in groups]
    if not any(timed):
        return Estimate(value, exact=True)
    samples = [[x for record in group for x in (record.samples or (record.value,))] for group in groups]
    if any(is_timed and len(values) < 2 for is_timed, values in zip(timed, samples, strict=True)):
        return Estimate(value)
    rng = np.random.default_rng(0)
    medians = [np.median(rng.choice(values, (RESAMPLES, len(values))), axis=1) for values in samples]
    low, high = np.quantile(statistic(*medians), CONFIDENCE)
    return Estimate(value, (min(low, value), max(high, value)))


def ratio(over: Record | Sequence[Record], under: Record | Sequence[Record]) -> Estimate:
    """How many times as large one measurement is as another."""
    return estimate(np.divide, over, under)


def growth(by_size: dict[float, Record]) -> Estimate:
    """The exponent with which a measurement grows with its size. Raises MissingRecord for fewer than two sizes."""
    sizes = list(by_size)
    return estimate(lambda *values: growth_exponent(sizes, values), *by_size.values())


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
