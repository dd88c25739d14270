"""The time of each thread, split while it runs into environment steps, inference, learning, sampling and the rest.

A forward pass is learning if a backward pass follows it, and inference if an environment step does. Time that is not
known to be one or the other therefore stays undecided until the next backward pass or environment step.
"""

import itertools
import os
import threading
from time import perf_counter

from rlrepro.doctor.live.activity import INFERENCE, LEARNING, REST, Activity
from rlrepro.doctor.live.notes import Notes

POINT_SECONDS = 0.25  # between two points of the plot, at first
MAX_POINTS = 200
NUMBERS = itertools.count()


class Clocks(threading.local):
    """`clock` is the one of the calling thread, `clocks` has those of all threads."""

    def __init__(self, notes: Notes, clocks: list["Clock"]):
        self.notes, self.clocks = notes, clocks
        self._begin()

    def _begin(self) -> None:
        self.clock = Clock(Activity())
        self.notes.activities[f"{os.getpid()}.{next(NUMBERS)}"] = self.clock.activity
        self.clocks.append(self.clock)

    def renew(self) -> None:
        """Start over, in a forked process."""
        self.clocks.clear()
        self._begin()

    def settle(self) -> None:
        """Write what is undecided or estimated to the activities."""
        for clock in self.clocks:
            if (estimate := clock.estimate) is not None:
                estimate.apply(clock.activity, clock.since)
            passes = clock.passes + clock.open_passes
            clock.activity.undecided = [passes, clock.other + clock.since_open - clock.open_passes]


class Clock:
    """The clock of one thread. `inside` is True during a watched call; nested calls are part of it."""

    __slots__ = (
        "activity", "estimate", "inside", "learning", "next_point", "open", "open_passes", "other", "passes", "pause",
        "since", "since_open", "updating",
    )  # fmt: skip

    def __init__(self, activity: Activity):
        self.activity = activity
        self.inside = False
        self.estimate = None  # while the watch rests: `apply(activity, now)` fills in what the thread did until then
        self.learning = 0  # learning stages of a library's training that are running
        self.updating = False  # since a sample or a gradient step, until the next environment step
        self.since = self.next_point = 0.0
        self.pause = POINT_SECONDS
        self.other = self.passes = 0.0  # undecided seconds, before the first forward pass with gradients
        self.open, self.since_open, self.open_passes = False, 0.0, 0.0  # since then: all seconds, and those of passes

    def enter(self, start: float, *, learning: bool | None = None) -> None:
        """A watched call begins; its probe began at `start`. Count the time since the last call ended. True or False
        for `learning` decides what that time was."""
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
        """A watched call ends. Returns the seconds that it took."""
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
        """Decide what the undecided time was. Without `learning`, the passes were inference. With it, the passes with
        gradients and what followed them were learning; after a sample or a gradient step, everything else was too."""
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
        """Count some of the time just now as the watch's own."""
        if self.since:
            self.since += seconds
            self.activity.watching_seconds += seconds

    def resume(self) -> None:
        """Split the time from now on, after a rest."""
        self.estimate, self.since, self.next_point = None, perf_counter(), float("inf")

    def point(self, now: float) -> None:
        """Note the seconds so far, for the plot."""
        points = self.activity.points
        points.append((now, list(self.activity.seconds)))
        if len(points) > MAX_POINTS:
            del points[1::2]
            self.pause *= 2
        self.next_point = now + self.pause
