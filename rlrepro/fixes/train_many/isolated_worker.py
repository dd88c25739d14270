"""Runs each call in an isolated process, so that a killed process ends only one call.

A pool of several processes breaks as a whole when one of them is killed, for example by the system when memory runs
out. Here each thread has its own pool of a single process, and makes a new one if that breaks.
"""

import ctypes
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

from loky import BrokenProcessPool, ProcessPoolExecutor

from .threads import thread_variables
from .worker_main import Reply, run_payload, timeout_message

ORPHAN_SECONDS = 1.0  # between checks that the parent process still exists
ORPHAN_EXIT = 86
PR_SET_PDEATHSIG = 1  # prctl(2): the signal that a process gets when the thread that started it ends
CLOSE_SECONDS = 60.0  # for killed processes to end


class IsolatedWorkers:
    """One worker process for each calling thread; each worker computes with this number of `threads`, and sees one of
    the `cards`. A call is killed after `timeout` seconds."""

    def __init__(self, threads: int, cards: list[str] | None = None, timeout: float | None = None):
        self.threads, self.timeout, self._cards = threads, timeout, list(cards or ())
        self._marks = tempfile.TemporaryDirectory(prefix="train_many-started-")
        self._current, self._pools, self._closed = threading.local(), [], False
        self._lock = threading.Lock()  # a pool is created and listed, or all are closed, but never both at once

    def call(self, payload: bytes, seed: int) -> Reply:
        """Run a pickled (fn, config) as fn(**config), with the random generators seeded."""
        mark = Path(self._marks.name) / str(threading.get_ident())  # created when the call starts
        mark.unlink(missing_ok=True)
        try:
            return self._pool().submit(run_payload, payload, seed, self.threads, self.timeout, str(mark)).result()
        except BrokenProcessPool as broken:
            self._current.pool = None
            seconds = time.time() - mark.stat().st_mtime if mark.exists() else 0.0
            exit_code = re.search(r"\{(.*)\}", str(broken))
            if exit_code and "SIGALRM" in exit_code[1]:
                return Reply(None, timeout_message(self.timeout), seconds)
            suffix = f" ({exit_code[1]})" if exit_code else ""
            error = f"the process of this training run was killed{suffix}; if memory ran out, lower n_jobs"
            return Reply(None, error, seconds)

    def _pool(self) -> ProcessPoolExecutor:
        if getattr(self._current, "pool", None) is None:
            with self._lock:
                if self._closed:
                    raise RuntimeError("these workers are closed and take no further calls")
                variables = thread_variables(self.threads)
                if self._cards and not hasattr(self._current, "card"):
                    self._current.card = self._cards.pop()
                if hasattr(self._current, "card"):
                    variables["CUDA_VISIBLE_DEVICES"] = self._current.card
                self._current.pool = ProcessPoolExecutor(1, env=variables, initializer=_serve, initargs=(os.getpid(),))
                self._pools.append(self._current.pool)
        return self._current.pool

    def close(self) -> None:
        """End all processes, even in the middle of a call. A process that can't be killed, because a driver or a
        network disk blocks it, is left behind after CLOSE_SECONDS, with a warning."""
        closer = threading.Thread(target=self._end, daemon=True)
        closer.start()
        closer.join(CLOSE_SECONDS)
        if closer.is_alive():
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
        self._marks.cleanup()


def _serve(parent: int) -> None:
    multiprocessing.set_start_method(None, force=True)  # so that a run starts its own processes as it would on its own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    if sys.platform == "linux":  # ends with the thread that waits for it, even while a run holds the interpreter
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN_SECONDS)
    os._exit(ORPHAN_EXIT)
