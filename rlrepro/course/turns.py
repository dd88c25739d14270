"""Several notebooks at a time, of which a cell that is tagged `timed` runs alone."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from datetime import UTC, datetime

import psutil

from rlrepro.lab.limits import CELL_SECONDS, waiting_for

TIMED = "timed"
KERNEL_START = "__import__('rlrepro.course.kernel_start')"  # leaves no name in the notebook


class Turns:
    """Permits for the notebooks of a run, one for each of its `jobs`. A cell needs one, and a timed cell needs `timed`,
    by default all."""

    def __init__(self, jobs: int, timed: int | None = None):
        self.jobs, self.timed = jobs, timed or jobs
        self._permits = threading.Semaphore(jobs)
        self._queue = threading.Lock()  # nobody overtakes a timed cell, which waits for the most permits

    def take(self, count: int) -> None:
        """Raises TookTooLong if other notebooks keep their permits for longer than their cells may run."""
        with waiting_for("the wait for a cell of another notebook", self.jobs * CELL_SECONDS["full"]) as timeout:
            if not self._queue.acquire(timeout=timeout):
                raise TimeoutError
            try:
                for permits in range(count):
                    if not self._permits.acquire(timeout=timeout):
                        self.give_back(permits)
                        raise TimeoutError
            finally:
                self._queue.release()

    def give_back(self, count: int) -> None:
        if count:
            self._permits.release(count)


class Turn:
    """What one notebook holds, from before its kernel starts until it has ended. nbclient calls it before each cell."""

    def __init__(self, turns: Turns):
        self._turns, self._held = turns, 0

    def __enter__(self) -> "Turn":
        self._exchange(1)
        return self

    def __exit__(self, *error) -> None:
        self._exchange(0)

    def __call__(self, cell, cell_index) -> None:
        self._exchange(self._turns.timed if TIMED in cell.metadata.get("tags", ()) else 1)
        cell.metadata.papermill["start_time"] = datetime.now(UTC).isoformat()  # the wait is not part of the cell's time

    def _exchange(self, count: int) -> None:
        self._turns.give_back(self._held)
        self._held = 0
        self._turns.take(count)
        self._held = count


def run_at_once(jobs: int, fn: Callable, items: Iterable) -> Iterator:
    """Yield `fn(item)` of each item once it is done; up to `jobs` calls run at a time, in threads.

    If the caller ends early, such as by Ctrl-C, the kernels that this process has started are killed, which ends the
    calls.
    """
    with ThreadPoolExecutor(jobs) as pool:
        calls = [pool.submit(fn, item) for item in items]
        try:
            for call in as_completed(calls):
                yield call.result(timeout=0)
        finally:
            _end(calls)


def _end(calls: list[Future]) -> None:
    for call in calls:
        call.cancel()
    while wait(calls, timeout=0.1).not_done:  # one of them may be about to start a kernel
        for process in psutil.process_iter(["ppid", "cmdline"]):
            if process.info["ppid"] == os.getpid() and any(
                KERNEL_START in part for part in process.info["cmdline"] or ()
            ):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
