"""The stages of a library's training: how often each ran, and how much time and memory it took."""

import threading
import time

from rlrepro.doctor.live import memory
from rlrepro.doctor.live.clocks import Clocks
from rlrepro.doctor.live.notes import Notes, Stage
from rlrepro.doctor.live.timing import timed_learning

SHARE = 0.0005  # of the time that reading memory may take
ALWAYS = 5  # calls of a stage for which memory is read and notes are written regardless of the cost


class Running(threading.local):
    """The stages that run in this thread, the innermost last, each with the object whose method it is; `everywhere` has
    the names of the stages of all threads."""

    everywhere = []  # noqa: RUF012, shared on purpose

    def __init__(self):
        self.stages = []

    def clear(self) -> None:
        self.stages.clear()
        Running.everywhere.clear()

    def begin(self, name: str, owner) -> None:
        self.stages.append((name, owner))
        Running.everywhere.append(name)

    def end(self) -> None:
        name, _ = self.stages.pop()
        Running.everywhere.remove(name)


class Stages:
    """The stages of training runs: those that are `running`, and in the notes what each took."""

    def __init__(self, notes: Notes, clocks: Clocks):
        self.clocks = clocks
        self.notes, self.running, self._open = notes, Running(), []
        self._began, self._spent = time.perf_counter(), 0.0

    def probe(self, name: str, read_sizes=None):
        """For a method that is the stage `name`. A call within the same stage is part of it.
        `read_sizes(self, *args, **kwargs)` returns the configured sizes."""

        def make(method):
            def staged(owner, *args, **kwargs):
                running = self.running
                if running.stages and name in [outer for outer, _ in running.stages]:
                    return method(owner, *args, **kwargs)
                stage = self.notes.stages.get(name) or self.notes.stages.setdefault(name, Stage())
                opened = None
                if self._may_measure(stage):
                    if read_sizes is not None:
                        self.notes.sizes |= _valid(read_sizes(owner, *args, **kwargs))
                    opened = self._enter(stage)
                running.begin(name, owner)
                start = time.perf_counter()
                try:
                    if name == "collect":
                        return method(owner, *args, **kwargs)
                    return timed_learning(self.clocks, method, owner, *args, **kwargs)
                finally:
                    stage.seconds += time.perf_counter() - start
                    stage.calls += 1
                    running.end()
                    if opened:
                        self._leave(opened)
                    self.notes.write_if_due(always=stage.calls <= ALWAYS)  # a Pool may kill this process right after

            return staged

        return make

    def _may_measure(self, stage: Stage) -> bool:
        return stage.calls < ALWAYS or self._spent < SHARE * (time.perf_counter() - self._began)

    def _enter(self, stage: Stage) -> tuple | None:
        start = time.perf_counter()
        opened = stage, self._update_peaks()
        is_reset = memory.reset_peak()
        if is_reset:
            self._open.append(opened)
        self._charge(start)
        return opened if is_reset else None

    def _leave(self, opened: tuple) -> None:
        start = time.perf_counter()
        self._update_peaks()
        self._open[:] = [entry for entry in self._open if entry is not opened]  # another thread may have added one
        memory.reset_peak()
        self._charge(start)

    def _charge(self, start: float) -> None:
        seconds = time.perf_counter() - start
        self._spent += seconds
        self.clocks.clock.charge(seconds)

    def _update_peaks(self) -> int | None:
        """Update every open stage with the peak since the last reading. Returns the memory in use now."""
        peak, level, on_gpu = memory.peak_and_level()
        for stage, before in tuple(self._open):
            if peak is not None and peak > (stage.peak_bytes or 0):
                stage.peak_bytes, stage.before_bytes, stage.on_gpu = peak, before, on_gpu
        return level


def _valid(sizes: dict) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if isinstance(size, int) and size > 0}
