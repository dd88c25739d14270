"""compare(a, b): the ratio of two calls' times, and its spread."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlrepro.lab.units import format_value

SPREAD = (0.1, 0.9)  # quantiles of the paired ratios that `low` and `high` return


@dataclass(frozen=True)
class Comparison:
    """Interleaved timings of `a` and `b`, in seconds per call. The calls of a pair ran back to back."""

    a_seconds: tuple[float, ...]
    b_seconds: tuple[float, ...]

    @property
    def ratios(self) -> np.ndarray:
        """How many times longer `a` takes than `b`, pair by pair."""
        return np.array(self.a_seconds) / np.array(self.b_seconds)  # (pairs,)

    @property
    def ratio(self) -> float:
        """Median of the paired ratios: how many times longer `a` takes than `b`."""
        return float(np.median(self.ratios))

    @property
    def low(self) -> float:
        """The 0.1 quantile of the paired ratios."""
        return float(np.quantile(self.ratios, SPREAD[0]))

    @property
    def high(self) -> float:
        """The 0.9 quantile of the paired ratios."""
        return float(np.quantile(self.ratios, SPREAD[1]))

    def __str__(self) -> str:
        low, ratio, high = (format_value(value, "ratio") for value in (self.low, self.ratio, self.high))
        return f"{ratio} ({low} to {high}, {len(self.a_seconds)} pairs)"


def compare(
    a: Callable[[], object],
    b: Callable[[], object],
    *,
    repeats: int = 7,
    warmup: int = 1,
    min_seconds: float = 0.02,
    device: str = "auto",
) -> Comparison:
    """Time `a` and `b` in `repeats` pairs of alternating order, so that drift of the machine affects both.

    Each timing has as many calls as take about `min_seconds`; on CUDA the device is synchronized before and after it.
    Raises ValueError if `repeats` is below 1.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, found {repeats!r}")
    synchronize = synchronizer(device)
    for _ in range(warmup):
        a(), b()
    counts = [max(1, round(min_seconds / _time(fn, 1, synchronize))) for fn in (a, b)]
    samples = ([], [])
    for repeat in range(repeats):
        for index in (0, 1) if repeat % 2 == 0 else (1, 0):
            samples[index].append(_time((a, b)[index], counts[index], synchronize))
    return Comparison(tuple(samples[0]), tuple(samples[1]))


def synchronizer(device: str) -> Callable[[], None]:
    """A function that waits until the device has finished all its work; it does nothing on a CPU."""
    import torch

    from rlrepro.lab.machine import resolve_device

    target = resolve_device(device)
    return (lambda: torch.cuda.synchronize(target)) if target.type == "cuda" else (lambda: None)


def _time(fn, count, synchronize) -> float:
    synchronize()
    start = time.perf_counter()
    for _ in range(count):
        fn()
    synchronize()
    return (time.perf_counter() - start) / count
