"""The stages of a library's training: how often, how long, and how much memory each took."""

import threading
import time

from rlrepro.doctor.live import memory
from rlrepro.doctor.live.clocks import Clocks
from rlrepro.doctor.live.notes import Notes, Stage
from rlrepro.doctor.live.timing import timed_learning

SHARE = 0.0005  # of the time that may go into looking at memory
ALWAYS = 5  # calls of a stage whose memory is read, whatever it costs


class Running(threading.local):
    """The stages that run in this thread, the innermost last, each with the object whose method it is; `everywhere` are
    the names of all threads' stages."""

    everywhere = []  # noqa: RUF012, on purpose

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
    """The stages of training runs: `running`, and what each took goes into the notes."""

    def __init__(self, notes: Notes, clocks: Clocks):
        self.clocks = clocks
        self.notes, self.running, self._open = notes, Running(), []
        self._began, self._spent = time.perf_counter(), 0.0

    def probe(self, name: str, look=None):
        """For a method that is the stage `name`. A call within the same stage is part of it. `look(self, args, kwargs)`
        returns sizes that are configured there."""

        def make(method):
            def staged(owner, *args, **kwargs):
                running = self.running
                if running.stages and name in [above for above, _ in running.stages]:
                    return method(owner, *args, **kwargs)
                stage = self.notes.stages.get(name) or self.notes.stages.setdefault(name, Stage())
                looked = None
                if self._may_look(stage):
                    if look is not None:
                        self.notes.sizes |= _known(look(owner, *args, **kwargs))
                    looked = self._enter(stage)
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
                    if looked:
                        self._leave(looked)
                    self.notes.write_now_and_then()

            return staged

        return make

    def _may_look(self, stage: Stage) -> bool:
        return stage.calls < ALWAYS or self._spent < SHARE * (time.perf_counter() - self._began)

    def _enter(self, stage: Stage) -> tuple | None:
        start = time.perf_counter()
        opened = stage, self._fold()
        known = memory.restart()
        if known:
            self._open.append(opened)
        self._charge(start)
        return opened if known else None

    def _leave(self, opened: tuple) -> None:
        start = time.perf_counter()
        self._fold()
        self._open[:] = [each for each in self._open if each is not opened]  # another thread may have opened one since
        memory.restart()
        self._charge(start)

    def _charge(self, start: float) -> None:
        seconds = time.perf_counter() - start
        self._spent += seconds
        self.clocks.clock.charge(seconds)

    def _fold(self) -> int | None:
        """Give the peak since the last look to every open stage."""
        peak, level, on_gpu = memory.peak_and_level()
        for stage, before in tuple(self._open):
            if peak is not None and peak > (stage.peak_bytes or 0):
                stage.peak_bytes, stage.before_bytes, stage.on_gpu = peak, before, on_gpu
        return level


def _known(sizes: dict) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if isinstance(size, int) and size > 0}
