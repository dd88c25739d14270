"""UpdatePlanner: runs the stages of an update at given sizes, and searches for the largest sizes that fit."""

from collections.abc import Callable

import numpy as np

from rlrepro.fit.memory_plan import CannotPlan, Plan, check_size, limit_bytes

RESERVE = 0.03  # of what a stage needs: operators round their workspaces up, and change algorithms with the size
MOST_ROWS = 2**24  # per forward pass: a plan keeps an index for each row
MULTIPLES = 3  # how far beyond the rollout found so far the search looks
MOST_CHUNKS = 2**32  # a search that gets this far is not limited by GPU memory


class UpdatePlanner:
    """Plans updates of the same networks at any sizes.

    `stages` is a library's `SB3Stages`, `TianshouStages` or `TorchRLStages`. With `has_margins`, what operators need on
    top was measured, and a plan includes it and a reserve.
    """

    def __init__(self, stages, *, has_margins: bool):
        self._stages, self._has_margins = stages, has_margins

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
            raise CannotPlan(f"max_batchsize is tianshou's; this library has none, found {max_batchsize!r}")
        if device_memory_gib is not None:
            limit_bytes(device_memory_gib)
        chunk, minibatch = min(max_batchsize or rollout, rollout), min(batch_size, rollout)
        if max(chunk * self._stages.takes_max_batchsize, minibatch) > MOST_ROWS:
            raise CannotPlan(f"at most {MOST_ROWS:,} rows at a time can be planned; found {max(chunk, minibatch):,}")
        try:
            peaks = {"collect": self._stages.collect(envs)}
            if self._stages.preprocess:
                peaks["preprocess"] = self._stages.preprocess(rollout, chunk)
            peaks["learn"] = self._stages.learn(rollout, minibatch)
        except Exception as error:
            raise CannotPlan(f"the update can't be traced: {type(error).__name__}: {error}") from error
        tensors = {stage: int(peak[0]) for stage, peak in peaks.items()}
        margins = {stage: self._needed(peak) - tensors[stage] for stage, peak in peaks.items()}
        sizes = {"rollout": rollout, "max_batchsize": max_batchsize, "batch_size": batch_size, "envs": envs}
        return Plan(sizes, device_memory_gib, tensors, margins if self._has_margins else {}, self)

    def largest(self, plan: Plan, size: str, limit: int, multiple_of: int = 1) -> int | None:
        """The largest value of that size within `limit` bytes, with the other sizes of `plan`."""
        if multiple_of != 1:
            raise CannotPlan(f"multiple_of is for updates of your own; found {multiple_of!r}")
        if size == "rollout":
            return self.largest_rollout(plan, limit)
        searches = {"batch_size": self.largest_batch_size, "max_batchsize": self.largest_max_batchsize}
        if size not in searches:
            raise CannotPlan(f"size must be one of rollout, {', '.join(searches)}; found {size!r}")
        return searches[size](plan.rollout, limit)

    def largest_batch_size(self, rollout: int, limit: int) -> int:
        """The largest minibatch for which `learn` stays within `limit` bytes; 0 if there is none."""
        return self._largest_chunk(self._stages.learn, rollout, limit)

    def largest_max_batchsize(self, rollout: int, limit: int) -> int:
        """The largest chunk for which `preprocess` stays within `limit` bytes; 0 if there is none. Raises CannotPlan
        for a library without this parameter."""
        if not self._stages.takes_max_batchsize:
            raise CannotPlan("this library has no max_batchsize")
        return self._largest_chunk(self._stages.preprocess, rollout, limit)

    def largest_rollout(self, plan: Plan, limit: int) -> int | None:
        """The longest rollout within `limit` bytes, with the other sizes of `plan`; None if there is no limit.

        A remainder is joined to a minibatch: a longer rollout may fit where a shorter one does not. From a multiple of
        either size to the next, the peak only grows.
        """
        sizes = {plan.max_batchsize or plan.batch_size, plan.batch_size}

        def peak(rollout):
            return plan.at(rollout=rollout).peak_bytes

        count = _largest(lambda count: peak(count * max(sizes)), limit, MOST_CHUNKS)
        if count == MOST_CHUNKS:
            return None
        best = count * max(sizes) or _largest(peak, limit, max(max(sizes) - 1, 1))
        following = sorted({(best // size + more) * size for size in sizes for more in range(1, MULTIPLES)})
        best = max([best, *(rollout for rollout in following if peak(rollout) <= limit)])
        end = min((best // size + 1) * size for size in sizes)
        return best + _largest(lambda more: peak(best + more), limit, end - best - 1) if end - best > 1 else best

    def _needed(self, peaks: np.ndarray) -> int:
        """Bytes of a stage, given its peaks without and with what operators need."""
        return int(peaks[1]) + int(RESERVE * peaks[1]) if self._has_margins else int(peaks[0])

    def _largest_chunk(self, stage: Callable, rollout: int, limit: int) -> int:
        """The largest size that fits, where the chunk that a remainder is joined to must fit too."""
        most = min(rollout, MOST_ROWS)

        def needed(rollout, size):
            return self._needed(stage(rollout, size))

        if not self._stages.joins_remainder:
            return _largest(lambda size: needed(rollout, size), limit, most)
        most = _largest(lambda size: needed(rollout // size * size, size), limit, most)  # without any remainder
        sizes = (size for size in range(most, 0, -1) if size + rollout % size <= most)
        return next((size for size in sizes if needed(rollout, size) <= limit), 0)


def _largest(peak: Callable[[int], int], limit: int, most: int) -> int:
    """The largest size up to `most` whose peak is within the limit; 0 if there is none. The peak must grow with size.

    Peaks grow almost linearly, so the next size tried is where the line through the last two meets the limit; every
    fourth try bisects the interval instead.
    """
    low, high = 1, most
    if (peak_at_high := peak(high)) <= limit:
        return high
    if (peak_at_low := peak(low)) > limit:
        return 0
    tries = 0
    while high - low > 1:
        tries += 1
        share = (limit - peak_at_low) / (peak_at_high - peak_at_low) if tries % 4 else 0.5
        size = min(max(low + int((high - low) * share), low + 1), high - 1)
        if (needed := peak(size)) <= limit:
            low, peak_at_low = size, needed
        else:
            high, peak_at_high = size, needed
    return low
