"""Time that goes into single methods of libraries, of which a release is known to waste it."""

import time

from rlrepro.doctor.live.call_sites import places
from rlrepro.doctor.live.notes import Notes, Spent

NAN_SEARCH, WAIT = "search for NaN", "wait for workers"


def probe_spent(notes: Notes, name: str, count=None):
    """For a method whose calls are noted under a name. A call within another is part of it. `count(self)` is how much
    it works on."""
    inside = []

    def make(method):
        def timed(self, *args, **kwargs):
            if inside:
                return method(self, *args, **kwargs)
            if (spent := notes.spent.get(name)) is None:
                spent = notes.spent[name] = Spent(*places(self))
            inside.append(self)
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return method(self, *args, **kwargs)
            finally:
                inside.pop()
                wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
                spent.add(Spent(spent.place, spent.own, 1, wall, cpu, wall, count(self) if count else 0))
                notes.write_now_and_then()

        return timed

    return make
