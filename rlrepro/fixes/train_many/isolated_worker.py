"""Calls in a process of one's own: what kills it, kills one call.

A pool of several processes breaks as a whole when one of them is killed, as by the system when memory runs out. Here
each thread has a pool of a single process, which is made anew when it broke.
"""

import multiprocessing
import os
import signal
import threading
import time
import warnings

from loky import BrokenProcessPool, ProcessPoolExecutor

from .threads import thread_variables
from .worker_main import Reply, answer

ORPHAN_SECONDS = 1.0  # between looks at whether the process that started this one is still there
ORPHAN_EXIT = 86
CLOSE_SECONDS = 60.0  # for processes to go that were killed


class OwnProcesses:
    """A process for each thread that calls, with so many computing threads."""

    def __init__(self, threads: int):
        self.threads = threads
        self._mine, self._all, self._closed = threading.local(), [], False
        self._lock = threading.Lock()  # a pool is made and listed, or all are closed, but never both at once

    def call(self, payload: bytes, seed: int) -> Reply:
        """Run a pickled (fn, config) as fn(**config), with the random generators seeded."""
        start = time.monotonic()
        try:
            return self._pool().submit(answer, payload, seed, self.threads).result()
        except BrokenProcessPool as broken:
            self._mine.pool = None
            told = " ".join(str(broken).split())
            error = f"the process of this training was killed; where memory ran out, use fewer n_jobs. loky: {told}"
            return Reply(None, error, time.monotonic() - start)

    def _pool(self) -> ProcessPoolExecutor:
        if getattr(self._mine, "pool", None) is None:
            with self._lock:
                if self._closed:
                    raise RuntimeError("closed: no further call")
                self._mine.pool = ProcessPoolExecutor(
                    1, env=thread_variables(self.threads), initializer=_serve, initargs=(os.getpid(),)
                )
                self._all.append(self._mine.pool)
        return self._mine.pool

    def close(self) -> None:
        """End all processes, in the middle of a call too. One that can't even be killed, as while a driver or a network
        disk holds it, is left after CLOSE_SECONDS, with a warning."""
        ending = threading.Thread(target=self._end, daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)
        if ending.is_alive():
            warnings.warn(
                f"processes of training runs were killed and are still there after {CLOSE_SECONDS:g} s; results that "
                f"are there are kept. Look for children of process {os.getpid()} in state D",
                stacklevel=2,
            )

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            for pool in self._all:
                pool.shutdown(kill_workers=True)


def _serve(parent: int) -> None:
    multiprocessing.set_start_method(None, force=True)  # a training's own processes start as they would alone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN_SECONDS)
    os._exit(ORPHAN_EXIT)
