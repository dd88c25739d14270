"""A watch looks closely at the first seconds of training and then mostly rests, so that it costs little.

It looks at whole cycles of collecting and learning, from the first gradient step of one to that of another. While it
rests, everything that it replaced is put back except the steps of environments and optimizers. These are counted, and
end the rest. The time split and the number of samples are estimated from the cycles that were watched.
"""

import sys
from dataclasses import dataclass
from time import perf_counter

from rlrepro.doctor.live.activity import LEARNS, STEPS, Activity, total
from rlrepro.doctor.live.clocks import POINT_SECONDS, Clock, Clocks
from rlrepro.doctor.live.patches import Patches

FIRST_SECONDS, FIRST_CYCLES = 5.0, 3  # that it watches at least, before the first rest
SECONDS = 1.0  # that it watches at least, after each rest
SHARE = 0.05  # of the time that it watches, after the first rest
GROWTH = 0.1  # of all the time so far that each rest lasts at least, since Python lets a class change only so often


@dataclass(frozen=True)
class Estimate:
    """What a thread does from `base.ended` on, if it goes on as in all cycles that were watched."""

    base: Activity
    watched: Activity  # `seconds` and `counts` of these cycles alone
    seen: dict[str, int]  # counts of these cycles and of all that came before the first rest

    def apply(self, activity: Activity, now: float) -> None:
        """Overwrite everything that was noted since then except the steps, which are always counted."""
        base, rested = self.base, now - self.base.ended
        each = rested / sum(self.watched.seconds)
        activity.seconds = [old + each * new for old, new in zip(base.seconds, self.watched.seconds, strict=True)]
        learned = (activity.counts[LEARNS] - self.seen[LEARNS]) / self.watched.counts[LEARNS]
        for unit in self.watched.counts.keys() - {LEARNS, STEPS}:
            activity.counts[unit] = self.seen[unit] + round(self.watched.counts[unit] * learned)
        activity.estimated_seconds = base.estimated_seconds + rested
        activity.ended = now


class Rests:
    """When this process is watched. Only one rests that steps environments and learns, all in one thread, and in which
    torch has compiled nothing: it would compile that again for what is put back."""

    def __init__(self, patches: Patches, clocks: Clocks):
        self.patches, self.clocks = patches, clocks
        self.renew()

    def renew(self) -> None:
        """Watch closely, as at first."""
        self.patches.resume()
        self.resting, self.alone = False, True
        self.until = self.next_look = 0.0
        self.clock = self.before = self.estimate = None  # the thread's that learns; its activity when cycles began
        self.watched = self.seen = Activity()
        self.steps = self.cycles = 0

    def after_step(self, clock: Clock) -> None:
        """A thread has made a gradient step. From here on the watch rests, or no longer rests, or goes on."""
        self.clock = self.clock or clock
        if clock is not self.clock:
            self._share()
        elif self.resting:
            self.go_on(clock)
        elif (steps := clock.activity.counts.get(STEPS, 0)) != self.steps:
            self.steps = steps
            self._begin_cycle(clock)

    def go_on(self, clock: Clock) -> None:
        """A thread has made a step of any kind during a rest."""
        if clock is self.clock:
            clock.since = now = perf_counter()
            if now > self.next_look:
                self._look(clock, now)

    def _share(self) -> None:
        """More threads than one learn: an estimate of one would say nothing of the others."""
        self.alone, resting = False, self.resting
        if resting:
            self.clocks.settle()
            self._wake()
        self.estimate = None

    def _begin_cycle(self, clock: Clock) -> None:
        activity = clock.activity
        if self.before is None:
            if (estimate := self.estimate) is not None:  # up to here, as the watch began in the middle of a cycle
                rested = activity.estimated_seconds
                estimate.apply(activity, clock.since)
                activity.estimated_seconds = rested
            self.before, self.cycles, clock.next_point = activity.copy(), 0, 0.0
            return
        self.cycles += 1
        seconds = clock.since - self.before.ended
        least = (SECONDS, 1) if self.estimate else (FIRST_SECONDS, FIRST_CYCLES)
        if seconds >= least[0] and self.cycles >= least[1] and self._may_rest():
            self._rest(clock, seconds)

    def _rest(self, clock: Clock, seconds: float) -> None:
        window, base = clock.activity.since(self.before), clock.activity.copy()
        self.watched = total([self.watched, window])
        self.seen = total([self.seen, window]) if self.estimate else base
        self.estimate, self.before = Estimate(base, self.watched, self.seen.counts), None
        self.until = clock.since + max(seconds / SHARE, GROWTH * (clock.since - clock.activity.began))
        self.resting, clock.estimate = True, self.estimate
        self.patches.suspend()
        self.clocks.notes.write()

    def _look(self, clock: Clock, now: float) -> None:
        self.next_look = now + POINT_SECONDS
        if (estimate := clock.estimate) is None:  # another thread has just ended the rest
            return
        estimate.apply(clock.activity, now)
        if now > clock.next_point:
            clock.point(now)
        self.clocks.notes.write_now_and_then()
        if now > self.until and not compiled():
            self._wake()

    def _wake(self) -> None:
        self.patches.resume()
        self.resting, self.steps = False, self.clock.activity.counts.get(STEPS, 0)
        self.clock.begin_again()

    def _may_rest(self) -> bool:
        return self.alone and not compiled() and sum(each.activity.began > 0 for each in self.clocks.clocks) == 1


def compiled() -> bool:
    """Whether torch has compiled anything."""
    module = sys.modules.get("torch._dynamo.convert_frame")
    return module is not None and getattr(module, "FRAME_COUNTER", 1) > 0
