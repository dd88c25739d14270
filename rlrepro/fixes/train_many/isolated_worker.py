"""Calls that each run in an isolated process: whatever kills it ends one call only.

A pool of several processes breaks as a whole when one of them is killed, for example by the system when memory runs
out. Here each thread has its own pool of a single process, and makes a new one if that breaks.
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

ORPHAN_SECONDS = 1.0  # between checks that the parent process still exists
ORPHAN_EXIT = 86
CLOSE_SECONDS = 60.0  # until processes that were killed have ended


class IsolatedWorkers:
    """One worker process for each calling thread; each worker computes with this number of `threads`."""

    def __init__(self, threads: int):
        self.threads = threads
        self._current, self._pools, self._closed = threading.local(), [], False
        self._lock = threading.Lock()  # a pool is made and listed, or all are closed, but never both at once

    def call(self, payload: bytes, seed: int) -> Reply:
        """Run a pickled (fn, config) as fn(**config), with the random generators seeded."""
        start = time.monotonic()
        try:
            return self._pool().submit(answer, payload, seed, self.threads).result()
        except BrokenProcessPool as broken:
            self._current.pool = None
            reason = " ".join(str(broken).split())
            error = f"the process of this training run was killed; if memory ran out, lower n_jobs. loky: {reason}"
            return Reply(None, error, time.monotonic() - start)

    def _pool(self) -> ProcessPoolExecutor:
        if getattr(self._current, "pool", None) is None:
            with self._lock:
                if self._closed:
                    raise RuntimeError("these workers are closed and take no further calls")
                self._current.pool = ProcessPoolExecutor(
                    1, env=thread_variables(self.threads), initializer=_serve, initargs=(os.getpid(),)
                )
                self._pools.append(self._current.pool)
        return self._current.pool

    def close(self) -> None:
        """End all processes, even in the middle of a call. One that can't be killed, because a driver or a network disk
        holds it, is left behind after CLOSE_SECONDS, with a warning."""
        ending = threading.Thread(target=self._end, daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)
        if ending.is_alive():
            warnings.warn(
                f"processes of training runs were killed and are still there after {CLOSE_SECONDS:g} s; finished "
                f"results are kept. Look for children of process {os.getpid()} in state D",
                stacklevel=2,
            )

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            for pool in self._pools:
                pool.shutdown(kill_workers=True)


def _serve(parent: int) -> None:
    multiprocessing.set_start_method(None, force=True)  # so that a run starts its own processes as it would alone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN_SECONDS)
    os._exit(ORPHAN_EXIT)
