"""The doctor measures the first seconds of training closely and then mostly rests, so that it costs little.

It measures whole cycles of collecting and learning, from the first gradient step of one to that of another. While it
rests, everything that it replaced is put back except the steps of environments and optimizers. These are counted, and
end the rest. The time split and the number of samples are estimated from the cycles that were watched.
"""

import sys
from dataclasses import dataclass
from time import perf_counter

from rlrepro.doctor.live.activity import LEARNS, STEPS, Activity, total
from rlrepro.doctor.live.clocks import POINT_SECONDS, Clock, Clocks
from rlrepro.doctor.live.patches import Patches

FIRST_SECONDS, FIRST_CYCLES = 5.0, 3  # the least that is watched before the first rest
SECONDS = 1.0  # the least that is watched after each rest
SHARE = 0.05  # share of the time that is watched after the first rest
GROWTH = 0.1  # least length of a rest, as a share of the time so far: Python allows a class only so many changes


@dataclass(frozen=True)
class Estimate:
    """What a thread does from `base.ended` on, if it continues as in all cycles that were watched."""

    base: Activity
    watched: Activity  # `seconds` and `counts` of these cycles alone
    observed: dict[str, int]  # counts of these cycles and of everything before the first rest

    def apply(self, activity: Activity, now: float) -> None:
        """Overwrite everything that was noted since then except the steps, which are always counted."""
        base, rested = self.base, now - self.base.ended
        scale = rested / sum(self.watched.seconds)
        activity.seconds = [old + scale * new for old, new in zip(base.seconds, self.watched.seconds, strict=True)]
        repeats = (activity.counts[LEARNS] - self.observed[LEARNS]) / self.watched.counts[LEARNS]
        for unit in self.watched.counts.keys() - {LEARNS, STEPS}:
            activity.counts[unit] = self.observed[unit] + round(self.watched.counts[unit] * repeats)
        activity.estimated_seconds = base.estimated_seconds + rested
        activity.ended = now


class Rests:
    """Decides when this process is watched. The doctor rests only if the process steps environments and learns in a
    single thread, and torch has compiled nothing: it would compile again when functions are put back."""

    def __init__(self, patches: Patches, clocks: Clocks):
        self.patches, self.clocks = patches, clocks
        self.renew()

    def renew(self) -> None:
        """Watch closely, as at the start."""
        self.patches.resume()
        self.resting, self.alone = False, True
        self.until = self.next_check = 0.0
        self.clock = self.start = self.estimate = None  # of the thread that learns; its activity when cycles began
        self.watched = self.observed = Activity()
        self.steps = self.cycles = 0

    def after_step(self, clock: Clock) -> None:
        """A thread has made a gradient step: begin a rest, end it, or continue."""
        self.clock = self.clock or clock
        if clock is not self.clock:
            self._stop_resting()
        elif self.resting:
            self.tick(clock)
        elif (steps := clock.activity.counts.get(STEPS, 0)) != self.steps:
            self.steps = steps
            self._begin_cycle(clock)

    def tick(self, clock: Clock) -> None:
        """A thread has made a step of any kind during a rest."""
        if clock is self.clock:
            clock.since = now = perf_counter()
            if now > self.next_check:
                self._check(clock, now)

    def _stop_resting(self) -> None:
        """More than one thread learns: an estimate from one would say nothing about the others."""
        self.alone, resting = False, self.resting
        if resting:
            self.clocks.settle()
            self._wake()
        self.estimate = None

    def _begin_cycle(self, clock: Clock) -> None:
        activity = clock.activity
        if self.start is None:
            if (estimate := self.estimate) is not None:  # up to here, since the watch resumed in the middle of a cycle
                rested = activity.estimated_seconds
                estimate.apply(activity, clock.since)
                activity.estimated_seconds = rested
            self.start, self.cycles, clock.next_point = activity.copy(), 0, 0.0
            return
        self.cycles += 1
        seconds = clock.since - self.start.ended
        minimum = (SECONDS, 1) if self.estimate else (FIRST_SECONDS, FIRST_CYCLES)
        if seconds >= minimum[0] and self.cycles >= minimum[1] and self._may_rest():
            self._rest(clock, seconds)

    def _rest(self, clock: Clock, seconds: float) -> None:
        window, base = clock.activity.since(self.start), clock.activity.copy()
        self.watched = total([self.watched, window])
        self.observed = total([self.observed, window]) if self.estimate else base
        self.estimate, self.start = Estimate(base, self.watched, self.observed.counts), None
        self.until = clock.since + max(seconds / SHARE, GROWTH * (clock.since - clock.activity.began))
        self.resting, clock.estimate = True, self.estimate
        self.patches.suspend()
        self.clocks.notes.write()

    def _check(self, clock: Clock, now: float) -> None:
        self.next_check = now + POINT_SECONDS
        if (estimate := clock.estimate) is None:  # another thread has just ended the rest
            return
        estimate.apply(clock.activity, now)
        if now > clock.next_point:
            clock.point(now)
        self.clocks.notes.write_if_due()
        if now > self.until and not compiled():
            self._wake()

    def _wake(self) -> None:
        self.patches.resume()
        self.resting, self.steps = False, self.clock.activity.counts.get(STEPS, 0)
        self.clock.resume()

    def _may_rest(self) -> bool:
        return self.alone and not compiled() and sum(clock.activity.began > 0 for clock in self.clocks.clocks) == 1


def compiled() -> bool:
    """Whether torch has compiled anything."""
    module = sys.modules.get("torch._dynamo.convert_frame")
    return module is not None and getattr(module, "FRAME_COUNTER", 1) > 0
