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


class Clocks(threading.local):
    """`clock` is the calling thread's own, `clocks` are those of all threads."""

    def __init__(self, notes: Notes, clocks: list["Clock"]):
        self.notes, self.clocks = notes, clocks
        self._begin()

    def _begin(self) -> None:
        self.clock = Clock(Activity())
        self.notes.activities[f"{os.getpid()}.{next(NUMBERS)}"] = self.clock.activity
        self.clocks.append(self.clock)

    def renew(self) -> None:
        """Begin anew, in a process that was forked."""
        self.clocks.clear()
        self._begin()

    def settle(self) -> None:
        """Note what is not decided yet, or is estimated."""
        for clock in self.clocks:
            if (estimate := clock.estimate) is not None:
                estimate.apply(clock.activity, clock.since)
            passes = clock.passes + clock.open_passes
            clock.activity.undecided = [passes, clock.other + clock.since_open - clock.open_passes]


class Clock:
    """A thread's. `inside` is True during a watched call, of which all nested calls are a part."""

    __slots__ = (
        "activity", "estimate", "inside", "learning", "next_point", "open", "open_passes", "other", "passes", "pause",
        "since", "since_open", "updating",
    )  # fmt: skip

    def __init__(self, activity: Activity):
        self.activity = activity
        self.inside = False
        self.estimate = None  # while the watch rests: `apply(activity, now)` says what the thread did until then
        self.learning = 0  # stages of a library's training that learn and run now
        self.updating = False  # since a sample or a gradient step, until the next environment step
        self.since = self.next_point = 0.0
        self.pause = POINT_SECONDS
        self.other = self.passes = 0.0  # undecided seconds, before the first forward pass with gradients
        self.open, self.since_open, self.open_passes = False, 0.0, 0.0  # since then: all, and of passes

    def enter(self, start: float, *, learning: bool | None = None) -> None:
        """A watched call begins, whose probe began at `start`: the time since the last one ended. True or False for
        `learning` decides what it was."""
        if self.estimate is not None:
            return
        if not self.since:
            self.activity.began = start
        elif self.learning:
            self.activity.seconds[LEARNING] += start - self.since
        elif self.open:
            self.since_open += start - self.since
        else:
            self.other += start - self.since
        if learning is not None:
            self.decide(learning=learning)
        self.since = now = perf_counter()
        self.activity.watching_seconds += now - start

    def leave(self) -> float:
        """It ends: the seconds that it took."""
        if self.estimate is not None:
            return 0.0
        now, activity = perf_counter(), self.activity
        spent = now - self.since
        if now > self.next_point:
            self.point(now)
        activity.ended = self.since = end = perf_counter()
        activity.watching_seconds += end - now
        return spent

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

    def decide(self, *, learning: bool) -> None:
        """Passes were inference; or those with gradients and what followed were learning, and all of them were after a
        sample or a gradient step."""
        seconds = self.activity.seconds
        if not learning:
            seconds[INFERENCE] += self.passes + self.open_passes
            seconds[REST] += self.other + self.since_open - self.open_passes
        else:
            seconds[LEARNING] += self.since_open
            seconds[LEARNING if self.updating else INFERENCE] += self.passes
            seconds[LEARNING if self.updating else REST] += self.other
        self.open, self.other, self.passes, self.since_open, self.open_passes = False, 0.0, 0.0, 0.0, 0.0

    def charge(self, seconds: float) -> None:
        """So much of the time just now went into the watch itself."""
        if self.since:
            self.since += seconds
            self.activity.watching_seconds += seconds

    def begin_again(self) -> None:
        """Divide the time from now on, after a rest."""
        self.estimate, self.since, self.next_point = None, perf_counter(), float("inf")

    def point(self, now: float) -> None:
        """Note how far it got, for the plot."""
        points = self.activity.points
        points.append((now, list(self.activity.seconds)))
        if len(points) > MOST_POINTS:
            del points[1::2]
            self.pause *= 2
        self.next_point = now + self.pause
