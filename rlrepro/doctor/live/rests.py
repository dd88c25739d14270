"""A watch looks closely at the first seconds of training and then mostly rests, so that it costs little.

It looks at whole cycles of collecting and learning, from the first gradient step of one cycle to that of another. While
it rests, everything that it replaced is put back. Only the optimizers' hooks stay: they count gradient steps, estimate
the time split and the other counts from the last cycles that were watched, and end the rest.
"""

import sys
from dataclasses import dataclass
from time import perf_counter

from rlrepro.doctor.live.activity import Activity
from rlrepro.doctor.live.clocks import Clock, Clocks
from rlrepro.doctor.live.patches import Patches

FIRST_SECONDS, FIRST_CYCLES = 5.0, 3  # that it watches at least, before the first rest
SECONDS = 1.0  # that it watches at least, after each rest
SHARE = 0.05  # of the time that it watches, after the first rest
GROWTH = 0.1  # of all the time so far that each rest lasts at least, since Python lets a class change only so often
LEARNS, STEPS = "gradient steps", "environment steps"


@dataclass(frozen=True)
class Estimate:
    """What a thread does from `base.ended` on, if it goes on as in the cycles that were watched last."""

    base: Activity
    shares: list[float]  # of each kind of work in the time
    counts: dict[str, float]  # per gradient step

    @classmethod
    def of(cls, before: Activity, after: Activity) -> "Estimate":
        """From the activity before and after these cycles."""
        spent = [new - old for new, old in zip(after.seconds, before.seconds, strict=True)]
        learned = after.counts[LEARNS] - before.counts[LEARNS]
        counts = {unit: (count - before.counts[unit]) / learned for unit, count in after.counts.items()}
        return cls(after, [each / sum(spent) for each in spent], counts)

    def apply(self, activity: Activity, now: float) -> None:
        """Overwrite everything that was noted since then except the gradient steps, which are always counted."""
        base, rested = self.base, now - self.base.ended
        activity.seconds = [old + share * rested for old, share in zip(base.seconds, self.shares, strict=True)]
        learned = activity.counts[LEARNS] - base.counts[LEARNS]
        for unit in self.counts.keys() - {LEARNS}:
            activity.counts[unit] = base.counts[unit] + round(self.counts[unit] * learned)
        activity.estimated_seconds = base.estimated_seconds + rested
        activity.ended = now


class Rests:
    """When this process is watched. Only one whose gradient steps all come from one thread ever rests, and none in
    which torch has compiled something, as it would compile that again for what is put back."""

    def __init__(self, patches: Patches, clocks: Clocks):
        self.patches, self.clocks = patches, clocks
        self.renew()

    def renew(self) -> None:
        """Watch closely, as at first."""
        self.patches.resume()
        self.resting, self.until = False, 0.0
        self.clock = self.before = self.estimate = None  # the thread's that learns; its activity when cycles began
        self.steps = self.cycles = 0

    def after_step(self, clock: Clock) -> None:
        """A thread has made a gradient step. From here on the watch rests, or no longer rests, or goes on."""
        self.clock = self.clock or clock
        if clock is not self.clock:
            return
        if self.resting:
            if (now := perf_counter()) > clock.next_point:
                self._go_on(now)
        elif (steps := clock.activity.counts.get(STEPS, 0)) != self.steps:
            self.steps = steps
            self._begin_cycle(clock)

    def _begin_cycle(self, clock: Clock) -> None:
        activity = clock.activity
        if self.before is None:
            if self.estimate is not None:
                self.estimate.apply(activity, clock.since)  # up to here, as the watch began in the middle of a cycle
            self.before, self.cycles, clock.next_point = activity.copy(), 0, 0.0
            return
        self.cycles += 1
        watched = clock.since - self.before.ended
        least, cycles = (SECONDS, 1) if self.estimate else (FIRST_SECONDS, FIRST_CYCLES)
        if watched >= least and self.cycles >= cycles and self._may_rest():
            self.estimate, self.before = Estimate.of(self.before, activity.copy()), None
            self.until = clock.since + max(watched / SHARE, GROWTH * (clock.since - activity.began))
            self.resting = clock.resting = True
            self.patches.suspend()
            self.clocks.notes.write()

    def _go_on(self, now: float) -> None:
        """Rest, from time to time with an estimate of what happened meanwhile."""
        clock = self.clock
        self.estimate.apply(clock.activity, now)
        clock.point(now)
        self.clocks.notes.write_now_and_then()
        if now > self.until and not compiled():
            self.patches.resume()
            self.resting, self.steps = False, clock.activity.counts.get(STEPS, 0)
            clock.begin_again()

    def _may_rest(self) -> bool:
        return not compiled() and sum(each.activity.began > 0 for each in self.clocks.clocks) == 1


def compiled() -> bool:
    """Whether torch has compiled anything."""
    module = sys.modules.get("torch._dynamo.convert_frame")
    return module is not None and getattr(module, "FRAME_COUNTER", 1) > 0
