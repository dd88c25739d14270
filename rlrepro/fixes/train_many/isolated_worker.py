"""Runs each call in an isolated process, so that a killed process ends only one call.

A pool of several processes breaks as a whole when one of them is killed, for example by the system when memory runs
out. Here each thread has its own pool of a single process, and makes a new one if that breaks.

loky notices a worker's death by a pipe, which stays open as long as a process that the run has forked lives. So each
worker leads a process group, and a thread that waits for it also checks that it is alive and in time, and kills the
group.
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
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path

from loky import BrokenProcessPool, ProcessPoolExecutor

from .threads import thread_variables
from .worker_main import PR_SET_PDEATHSIG, Reply, run_payload, timeout_message

ORPHAN_SECONDS = 1.0  # between checks that the parent process still exists
CLOSE_SECONDS = 60.0  # for killed processes to end
POLL_SECONDS = 0.2  # between checks that a worker is alive and in time
BROKEN_SECONDS = 5.0  # for loky to notice that a worker has died
KILLED = "the process of this training run was killed{}; if memory ran out, lower n_jobs"


class IsolatedWorkers:
    """One worker process for each calling thread; each worker computes with this number of `threads`, and sees one of
    the `cards`. A call is killed after `timeout` seconds.

    Together with a worker, its process group is killed: all processes that its runs have started, except those that
    have moved to a group of their own. If this process itself is killed, on Linux the workers and what they have forked
    end at once, and programs that a run has started with `subprocess` are left.
    """

    def __init__(self, threads: int, cards: list[str] | None = None, timeout: float | None = None):
        self.threads, self.timeout, self._cards = threads, timeout, list(cards or ())
        self._marks = tempfile.TemporaryDirectory(prefix="train_many-started-")
        self._current, self._pools, self._closed = threading.local(), [], False
        self._groups = {}  # of the workers in a call, by thread
        self._lock = threading.Lock()  # a pool is created and listed, or all are closed, but never both at once

    def call(self, payload: bytes, seed: int) -> Reply:
        """Run a pickled (fn, config) as fn(**config), with the random generators seeded."""
        mark = Path(self._marks.name) / str(threading.get_ident())  # created when the call starts
        mark.unlink(missing_ok=True)
        try:
            pool = self._pool()
            future = pool.submit(run_payload, payload, seed, self.threads, None, str(mark))
            error = self._watch(future, pool, mark)
            if error is None:
                return future.result()
        except BrokenProcessPool as broken:
            exit_code = re.search(r"\{(.+)\}", str(broken))
            error = KILLED.format(f" ({exit_code[1]})" if exit_code else "")
            _kill_group(self._groups.get(threading.get_ident()))
        finally:
            self._groups.pop(threading.get_ident(), None)
        self._current.pool = None
        return Reply(None, error, _age(mark))

    def _watch(self, future: Future, pool: ProcessPoolExecutor, mark: Path) -> str | None:
        """Wait until a call has ended, for which None is returned, or kill it and return its error."""
        worker = start = None
        while True:
            worker = next(iter(list(pool._processes.values())), worker)  # loky replaces one that takes too much memory
            if worker is not None:
                self._groups[threading.get_ident()] = worker.pid
            if wait([future], timeout=POLL_SECONDS).done:
                return None
            if start is None and mark.exists():
                start = time.monotonic() - _age(mark)
            if None not in (self.timeout, start) and time.monotonic() - start >= self.timeout:
                _kill_group(worker.pid)
                return timeout_message(self.timeout)
            if worker is not None and worker.exitcode is not None:
                _kill_group(worker.pid)
                if not wait([future], timeout=BROKEN_SECONDS).done and worker in list(pool._processes.values()):
                    return KILLED.format("")

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
                f"processes of training runs did not end within {CLOSE_SECONDS:g} s of being killed; finished results "
                f"are kept. A driver or network disk may block them: look for children of {os.getpid()} in state D",
                stacklevel=2,
            )

    def _end(self) -> None:
        with self._lock:
            self._closed, groups = True, list(self._groups.values())
            for pool in self._pools:
                pool.shutdown(kill_workers=True)
            for group in groups:
                _kill_group(group)
        self._marks.cleanup()


def _age(mark: Path) -> float:
    """Seconds since this file was created; 0 if there is none."""
    try:
        return max(0.0, time.time() - mark.stat().st_mtime)
    except FileNotFoundError:
        return 0.0


def _kill_group(leader: int | None) -> None:
    """Kill the process group of a worker, if it still exists; on Windows, which has none, only the worker."""
    if leader is not None:
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL) if hasattr(os, "killpg") else os.kill(leader, signal.SIGTERM)


def _serve(parent: int) -> None:
    if hasattr(os, "setsid"):
        os.setsid()  # a session, since the terminal may stop a process group that is merely in the background
    multiprocessing.set_start_method(None, force=True)  # so that a run starts its own processes as it would on its own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    if sys.platform == "linux":  # ends with the thread that waits for it, even while a run holds the interpreter
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN_SECONDS)
    _kill_group(os.getpid())
