"""The time of each thread, divided as it passes between environment steps, inference, learning, sampling and the rest.

A forward pass is learning if a backward pass follows it, and inference if an environment step does. So the time outside
of what is known to be one or the other stays open until the next backward pass or environment step decides.
"""

import itertools
import os
import threading
from time import perf_counter

from rlrepro.doctor.live.activity import INFERENCE, LEARNING, REST, Activity
from rlrepro.doctor.live.notes import Notes

POINT_SECONDS = 0.25  # between two points of the plot, at first
MOST_POINTS = 200
NUMBERS = itertools.count()


class Costs:
    """Seconds that the probes take themselves, as `calibration.calibrate` measures them."""

    call = 0.0  # of a watched call
    nested = 0.0  # of a module within another module's call
    linear = 0.0  # of a Linear layer, on top


class Clocks(threading.local):
    """`clock` is the calling thread's own, `clocks` are those of all threads."""

    def __init__(self, notes: Notes, clocks: list["Clock"], linear_calls: list[int]):
        self.notes, self.clocks, self.linear_calls = notes, clocks, linear_calls
        self._begin()

    def _begin(self) -> None:
        self.clock = Clock(Activity(), self.linear_calls)
        self.notes.activities[f"{os.getpid()}.{next(NUMBERS)}"] = self.clock.activity
        self.clocks.append(self.clock)

    def renew(self) -> None:
        """Begin anew, in a process that was forked."""
        self.clocks.clear()
        self._begin()

    def settle(self) -> None:
        """Note what is not decided yet."""
        for clock in self.clocks:
            passes = clock.passes + clock.open_passes
            clock.activity.undecided = [passes, clock.other + clock.since_open - clock.open_passes]


class Clock:
    """A thread's. `inside` is True during a watched call, of which all nested calls are a part."""

    __slots__ = (
        "activity", "inside", "learning", "linear_calls", "linears", "nested", "next_point", "open", "open_passes",
        "other", "passes", "pause", "since", "since_open", "updating",
    )  # fmt: skip

    def __init__(self, activity: Activity, linear_calls: list[int]):
        self.activity, self.linear_calls = activity, linear_calls
        self.inside, self.nested, self.linears = False, 0, 0
        self.learning = 0  # stages of a library's training that learn and run now
        self.updating = False  # since a sample or a gradient step, until the next environment step
        self.since = self.next_point = 0.0
        self.pause = POINT_SECONDS
        self._forget()

    def _forget(self) -> None:
        self.other = self.passes = 0.0  # undecided seconds, before the first forward pass with gradients
        self.open, self.since_open, self.open_passes = False, 0.0, 0.0  # since then: all, and of passes

    def enter(self, start: float) -> None:
        """A watched call begins: the time since the last one ended."""
        if not self.since:
            self.activity.began = start
        elif self.learning:
            self.activity.seconds[LEARNING] += start - self.since
        elif self.open:
            self.since_open += start - self.since
        else:
            self.other += start - self.since
        self.nested, self.linears = 0, self.linear_calls[0]
        self.since = start

    def leave(self) -> float:
        """It ends: the seconds that it took without those of the probes in it."""
        now = perf_counter()
        own = Costs.call + self.nested * Costs.nested + (self.linear_calls[0] - self.linears) * Costs.linear
        spent = now - self.since
        own = min(own, spent)
        activity = self.activity
        activity.watching_seconds += own
        activity.ended = self.since = now
        if now > self.next_point:
            self._point(now)
        return spent - own

    def leave_pass(self, with_gradients: bool) -> None:
        """A forward pass ends; what it was for is decided later."""
        spent = self.leave()
        if self.learning:
            self.activity.seconds[LEARNING] += spent
        elif with_gradients or self.open:
            self.open = True
            self.since_open += spent
            self.open_passes += spent
        else:
            self.passes += spent

    def decide_learning(self) -> None:
        """Passes with gradients and what followed were for learning; after a sample or a gradient step, all was."""
        seconds = self.activity.seconds
        seconds[LEARNING] += self.since_open
        seconds[LEARNING if self.updating else INFERENCE] += self.passes
        seconds[LEARNING if self.updating else REST] += self.other
        self._forget()

    def decide_acting(self) -> None:
        """Passes were inference."""
        seconds = self.activity.seconds
        seconds[INFERENCE] += self.passes + self.open_passes
        seconds[REST] += self.other + self.since_open - self.open_passes
        self._forget()

    def charge(self, seconds: float) -> None:
        """So much of the time just now went into the watch itself."""
        if self.since:
            self.since += seconds
            self.activity.watching_seconds += seconds

    def count(self, unit: str, number: int = 1) -> None:
        counts = self.activity.counts
        counts[unit] = counts.get(unit, 0) + number

    def _point(self, now: float) -> None:
        points = self.activity.points
        points.append((now, list(self.activity.seconds)))
        if len(points) > MOST_POINTS:
            del points[1::2]
            self.pause *= 2
        self.next_point = now + self.pause
