"""Time spent in single methods of libraries that are known to waste it in some releases."""

import time

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # only Linux has RUSAGE_THREAD
    getrusage = None

from rlrepro.doctor.live.call_sites import places
from rlrepro.doctor.live.notes import Notes, Spent

NAN_SEARCH, WAIT = "search for NaN", "wait for workers"
LONG_SECONDS = 2e-3  # of a wait; shorter ones end before a sleeping process would wake up


def probe_spent(notes: Notes, name: str, count=None):
    """For a method whose calls are noted under a name. A call within another is part of it. `count(self)` returns how
    much it processes."""
    inside = []

    def make(method):
        def timed(self, *args, **kwargs):
            if inside:
                return method(self, *args, **kwargs)
            if (spent := notes.spent.get(name)) is None:
                spent = notes.spent[name] = Spent(*places(self))
            inside.append(self)
            start, sleeps = time.perf_counter(), _sleeps()
            try:
                return method(self, *args, **kwargs)
            finally:
                inside.pop()
                seconds = time.perf_counter() - start
                awake = seconds if seconds >= LONG_SECONDS and _sleeps() == sleeps else 0.0
                spent.add(Spent(spent.place, spent.own, 1, seconds, awake, seconds, count(self) if count else 0))
                notes.write_if_due()

        return timed

    return make


def _sleeps() -> float:
    """How often this thread has gone to sleep, regardless of other threads that want its core; NaN if unknown."""
    return getrusage(RUSAGE_THREAD).ru_nvcsw if getrusage else float("nan")
