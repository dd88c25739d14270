"""What plan() returns: the peak of each stage, and the largest sizes that fit on a card."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, lcm
from numbers import Real

import numpy as np

from rlrepro.lab.units import format_value

RESERVE = 0.03  # of what a stage needs: operators round their workspaces up, and change algorithms with the size
SIZES = ("rollout", "max_batchsize", "batch_size", "envs")
MOST_ROWS = 2**24  # at a time: a plan keeps an index for each
LARGEST = 2**32  # chunks beyond which a search gives up: the card is not what ends it


class CannotPlan(ValueError):
    """An argument of `plan` that it can't work with: which, what was expected, what was found."""


def check_size(name: str, size, *, may_be_none: bool = False) -> None:
    """Raise CannotPlan for what is no number of rows."""
    is_whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    if not (may_be_none and size is None) and not (is_whole and size >= 1):
        raise CannotPlan(f"{name} must be a whole number, at least 1; found {size!r}")


@dataclass(frozen=True)
class Plan:
    """What an update would need.

    `stages` maps each stage to the bytes of tensors live on the card at its worst moment: weights, gradients and the
    optimizer's state, the rollout's tensors and the activations. `margins` maps it to what operators take for
    themselves on top, as measured on this machine (another kind of card may choose other algorithms), and a small
    reserve; it is empty where nothing was measured. What an allocator keeps beyond what it gives out is in neither.
    """

    rollout: int
    max_batchsize: int | None
    batch_size: int
    envs: int
    device_memory_gib: float | None
    stages: dict[str, int] = field(init=False)
    margins: dict[str, int] = field(init=False)
    _runs: object = field(repr=False)  # the library's stages, to be run with any sizes
    _has_margins: bool = field(repr=False)

    def __post_init__(self):
        for name in SIZES:
            check_size(name, getattr(self, name), may_be_none=name == "max_batchsize")
        if self.max_batchsize is not None and not self._runs.takes_max_batchsize:
            raise CannotPlan(f"max_batchsize is tianshou's; this library has none, found {self.max_batchsize!r}")
        if self.device_memory_gib is not None:
            self._limit(None)
        chunk, batch = (min(size or self.rollout, self.rollout) for size in (self.max_batchsize, self.batch_size))
        if max(chunk * self._runs.takes_max_batchsize, batch) > MOST_ROWS:
            raise CannotPlan(f"at most {MOST_ROWS:,} rows at a time can be planned; found {max(chunk, batch):,}")
        try:
            peaks = {"collect": self._runs.collect(self.envs)}
            if self._runs.preprocess:
                peaks["preprocess"] = self._runs.preprocess(self.rollout, chunk)
            peaks["learn"] = self._runs.learn(self.rollout, batch)
        except Exception as error:
            raise CannotPlan(f"the update could not be followed: {type(error).__name__}: {error}") from error
        stages = {name: int(peak[0]) for name, peak in peaks.items()}
        object.__setattr__(self, "stages", stages)
        margins = {name: self._needs(peak) - stages[name] for name, peak in peaks.items()} if self._has_margins else {}
        object.__setattr__(self, "margins", margins)

    def _needs(self, peaks: np.ndarray) -> int:
        """Bytes of a stage, from its peaks without and with operators' own memory."""
        return int(peaks[1]) + int(RESERVE * peaks[1]) if self._has_margins else int(peaks[0])

    def at(self, **sizes) -> "Plan":
        """The same networks with another `rollout`, `max_batchsize`, `batch_size`, `envs` or `device_memory_gib`."""
        kept = {name: getattr(self, name) for name in SIZES}
        kept |= {"device_memory_gib": self.device_memory_gib, "_runs": self._runs, "_has_margins": self._has_margins}
        return Plan(**kept | sizes)

    @property
    def needed(self) -> dict[str, int]:
        """Bytes of each stage, margin included."""
        return {name: peak + self.margins.get(name, 0) for name, peak in self.stages.items()}

    @property
    def peak_bytes(self) -> int:
        return max(self.needed.values())

    def fits(self, gib: float | None = None) -> bool:
        """Whether every stage fits, with its margin, on a card of `gib` GiB (`device_memory_gib` where left out)."""
        return self.failing_stage(gib) is None

    def failing_stage(self, gib: float | None = None) -> str | None:
        """The first stage that does not fit, in the order in which they run; None where all do."""
        limit = self._limit(gib)
        return next((name for name, peak in self.needed.items() if peak > limit), None)

    def largest_batch_size(self, gib: float | None = None) -> int:
        """The most rows of a gradient step, with this rollout, that fit; 0 where not even one does, and the rollout's
        length where all of it does.

        tianshou joins a short remainder to the last minibatch, which makes that one larger, so that not every smaller
        size fits too.
        """
        return self._largest_cut(self._runs.learn, self._limit(gib))

    def largest_max_batchsize(self, gib: float | None = None) -> int:
        """The most rows of a forward pass without gradients, with this rollout, that fit; as above. Raises CannotPlan
        for a library that has no such parameter."""
        if self.max_batchsize is None:
            raise CannotPlan("this library has no max_batchsize")
        return self._largest_cut(self._runs.preprocess, self._limit(gib))

    def _largest_cut(self, stage: Callable, limit: int) -> int:
        """The largest size that fits: where remainders are joined, the largest one whose largest chunk fits."""
        rollout, most = self.rollout, min(self.rollout, MOST_ROWS)

        def needed(rows, size):
            return self._needs(stage(rows, size))

        if not self._runs.joins_rest:
            return _largest(lambda size: needed(rollout, size), limit, most)
        most = _largest(lambda size: needed(rollout // size * size, size), limit, most)  # if nothing had to be joined
        sizes = (size for size in range(most, 0, -1) if size + rollout % size <= most)
        return next((size for size in sizes if needed(rollout, size) <= limit), 0)

    def largest_rollout(self, gib: float | None = None) -> int | None:
        """The longest rollout with these batch sizes that fits on the card: a multiple of both, or else shorter than
        either; 0 where none fits, and None where the card sets no limit. Its observations lie in host memory, which
        this does not look at."""
        limit, sizes = self._limit(gib), (self.max_batchsize or self.batch_size, self.batch_size)
        chunk = lcm(*sizes)
        chunks = _largest(lambda chunks: self.at(rollout=chunks * chunk).peak_bytes, limit, LARGEST)
        if chunks == 0:
            return _largest(lambda rows: self.at(rollout=rows).peak_bytes, limit, min(sizes))
        return None if chunks == LARGEST else chunk * chunks

    def _limit(self, gib: float | None) -> int:
        gib = self.device_memory_gib if gib is None else gib
        if not isinstance(gib, Real) or not 0 < gib < inf:
            raise CannotPlan(f"gib must be a positive number of GiB (or give plan() device_memory_gib), found {gib!r}")
        return int(gib * 2**30)

    def __str__(self) -> str:
        lines = []
        for name, peak in self.stages.items():
            margin = f" + {format_value(self.margins[name], 'B'):>9} of operators" if self.margins else ""
            lines.append(f"{name:12}{format_value(peak, 'B'):>12} of tensors{margin}")
        return "\n".join(lines)


def _largest(peak: Callable[[int], int], limit: int, most: int) -> int:
    """The largest size up to `most` whose peak is within the limit, for a peak that grows with it; 0 for none.

    Peaks grow nearly in a straight line, so the next size tried is where the line between the last two meets the limit;
    every third one halves what is left, whatever the line says.
    """
    low, high = 1, most
    if (at_high := peak(high)) <= limit:
        return high
    if (at_low := peak(low)) > limit:
        return 0
    tries = 0
    while high - low > 1:
        tries += 1
        share = (limit - at_low) / (at_high - at_low) if tries % 3 else 0.5
        size = min(max(low + int((high - low) * share), low + 1), high - 1)
        if (found := peak(size)) <= limit:
            low, at_low = size, found
        else:
            high, at_high = size, found
    return low
