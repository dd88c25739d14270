"""UpdatePlanner: runs the stages of an update at given sizes, and searches for the largest sizes that fit."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache

import numpy as np

from rlrepro.fit.marks import naming_stages
from rlrepro.fit.memory_plan import CannotPlan, Plan, check_size, limit_bytes
from rlrepro.fit.search import MAX_SIZE, largest_multiple

RESERVE = 0.03  # share of what a stage needs: operators round workspaces up, and choose algorithms by the size
MULTIPLES = 3  # how far beyond the rollout found so far the search looks
MAX_CHUNKS = 2**32  # a search that gets this far is not limited by GPU memory


class UpdatePlanner:
    """Plans updates of the same networks at any sizes.

    `stages` is a library's `SB3Stages`, `TianshouStages` or `TorchRLStages`. With `has_margins`, what operators need in
    addition was measured, and a plan includes it and a reserve.
    """

    def __init__(self, stages, *, has_margins: bool):
        self._stages, self._has_margins, self._notes = stages, has_margins, {}
        self._collect, self._learn = cache(stages.collect), cache(stages.learn)
        self._preprocess = stages.preprocess and cache(stages.preprocess)

    def plan(
        self,
        rollout: int,
        max_batchsize: int | None,
        batch_size: int,
        envs: int,
        device_memory_gib: float | None = None,
    ) -> Plan:
        """Run each stage at these sizes. Raises CannotPlan for an invalid size, and for code that can't be traced."""
        for name, size in {"rollout": rollout, "batch_size": batch_size, "envs": envs}.items():
            check_size(name, size)
        check_size("max_batchsize", max_batchsize, optional=True)
        if max_batchsize is not None and not self._stages.takes_max_batchsize:
            raise CannotPlan(
                f"max_batchsize is for tianshou only: leave it out for this library; found {max_batchsize!r}"
            )
        if device_memory_gib is not None:
            limit_bytes(device_memory_gib)
        chunk, minibatch = min(max_batchsize or rollout, rollout), min(batch_size, rollout)
        if max(chunk * self._stages.takes_max_batchsize, minibatch) > MAX_SIZE:
            raise CannotPlan(
                f"at most {MAX_SIZE:,} transitions at a time can be planned; found {max(chunk, minibatch):,}"
            )
        try:
            with naming_stages(lambda name: nullcontext(), self._notes):
                peaks = {"collect": self._collect(envs)}
                if self._preprocess:
                    peaks["preprocess"] = self._preprocess(rollout, chunk)
                peaks["learn"] = self._learn(rollout, minibatch)
        except Exception as error:
            raise CannotPlan(f"the update can't be traced: {type(error).__name__}: {error}") from error
        tensors = {stage: int(peak[0]) for stage, peak in peaks.items()}
        margins = {stage: self._needed_bytes(peak) - tensors[stage] for stage, peak in peaks.items()}
        sizes = {"rollout": rollout, "max_batchsize": max_batchsize, "batch_size": batch_size, "envs": envs}
        margins = margins if self._has_margins else {}
        return Plan(sizes, device_memory_gib, tensors, margins, self, notes=tuple(self._notes))

    def largest(self, plan: Plan, size: str, limit: int, multiple_of: int = 1) -> int | None:
        """The largest value of that size within `limit` bytes, with the other sizes of `plan`; 0 if there is none. For
        `max_batchsize`, only `preprocess` has to stay within the limit, and for `batch_size`, only `learn`."""
        if multiple_of != 1:
            raise CannotPlan(f"multiple_of is for updates of your own; found {multiple_of!r}")
        if size == "rollout":
            return self._largest_rollout(plan, limit)
        stages = {"batch_size": self._learn, "max_batchsize": self._preprocess}
        if size not in stages:
            raise CannotPlan(f"size must be one of rollout, {', '.join(stages)}; found {size!r}")
        if size == "max_batchsize" and not self._stages.takes_max_batchsize:
            raise CannotPlan("this library has no max_batchsize")
        return self._largest_chunk(stages[size], plan.rollout, limit)

    def _largest_rollout(self, plan: Plan, limit: int) -> int | None:
        """The longest rollout within `limit` bytes, with the other sizes of `plan`; None if there is no limit.

        A remainder is joined to a minibatch: a longer rollout may fit where a shorter one does not. From a multiple of
        either size to the next, the peak only grows.
        """
        sizes = {plan.max_batchsize or plan.batch_size, plan.batch_size}

        def peak(rollout):
            return plan.at(rollout=rollout).peak_bytes

        count = _largest(lambda count: peak(count * max(sizes)), limit, MAX_CHUNKS)
        if count == MAX_CHUNKS:
            return None
        best = count * max(sizes) or _largest(peak, limit, max(max(sizes) - 1, 1))
        candidates = sorted({(best // size + offset) * size for size in sizes for offset in range(1, MULTIPLES)})
        best = max([best, *(rollout for rollout in candidates if peak(rollout) <= limit)])
        end = min((best // size + 1) * size for size in sizes)
        return best + _largest(lambda extra: peak(best + extra), limit, end - best - 1) if end - best > 1 else best

    def _needed_bytes(self, peaks: np.ndarray) -> int:
        """Bytes of a stage, given its peaks without and with what operators need."""
        return int(peaks[1]) + int(RESERVE * peaks[1]) if self._has_margins else int(peaks[0])

    def _largest_chunk(self, stage: Callable, rollout: int, limit: int) -> int:
        """The largest size that fits. The chunk that a remainder is joined to must fit too."""
        max_size = min(rollout, MAX_SIZE)

        def needed_bytes(rollout, size):
            return self._needed_bytes(stage(rollout, size))

        if not self._stages.joins_remainder:
            return _largest(lambda size: needed_bytes(rollout, size), limit, max_size)
        # The largest size that fits without a remainder comes first.
        max_size = _largest(lambda size: needed_bytes(rollout // size * size, size), limit, max_size)
        sizes = (size for size in range(max_size, 0, -1) if size + rollout % size <= max_size)
        return next((size for size in sizes if needed_bytes(rollout, size) <= limit), 0)


def _largest(peak: Callable[[int], int], limit: int, max_size: int) -> int:
    """The largest size up to `max_size` whose peak is within the limit; 0 if there is none."""
    return largest_multiple(peak, limit, step=1, start=max_size, max_size=max_size)
