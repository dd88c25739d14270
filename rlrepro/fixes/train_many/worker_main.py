"""One training run in a worker process: seeded, limited to its threads, and its outcome as a Reply."""

import ctypes
import gc
import os
import random
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import cloudpickle

from .threads import limit_threads

PR_SET_PDEATHSIG = 1  # prctl(2): the signal that a process gets when the thread that started it ends


@dataclass(frozen=True)
class Reply:
    """The outcome of a run: its pickled value, or its error, and the seconds it took."""

    value: bytes | None
    error: str | None
    seconds: float


def run_payload(
    payload: bytes, seed: int, threads: int, timeout: float | None = None, mark: str | None = None
) -> Reply:
    """Run a pickled (fn, config) in this process, which is killed by SIGALRM after `timeout` seconds. The file `mark`
    is created when the call starts."""
    start, process = time.monotonic(), os.getpid()
    try:
        fn, config = cloudpickle.loads(payload)
        seed_everything(seed)
        limit_threads(threads)
        _freeze_objects()
        _end_forks()
        if mark is not None:
            Path(mark).touch()
        start = time.monotonic()
        if timeout is not None:  # the system's timer, because the call may never release the interpreter
            signal.setitimer(signal.ITIMER_REAL, timeout)
        try:
            value = fn(**config)
        finally:
            if os.getpid() != process:
                _end_fork()
        reply = Reply(cloudpickle.dumps(value), None, time.monotonic() - start)
        del value
        _freeze_objects(collect=True)
        return reply
    except BaseException:  # SystemExit too: a run that calls sys.exit() ends itself and nothing else
        return Reply(None, traceback.format_exc(), time.monotonic() - start)
    finally:
        if timeout is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _end_fork() -> None:
    """End a process that the run has forked and that has left the run's function, as it would end with a script. It
    would otherwise answer in place of the run, and then take the calls of other runs."""
    error = sys.exc_info()[1]
    code = 0 if error is None else getattr(error, "code", 1) or 0  # of sys.exit, which may be None or a message
    if not isinstance(error, SystemExit | None):
        traceback.print_exception(error)
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 1)


def timeout_message(timeout: float) -> str:
    """The error of a run that its timer has killed."""
    return f"this training run was ended after timeout={timeout:g} seconds"


@cache  # once before the first run, and once after it because it may import more
def _freeze_objects(collect: bool = False) -> None:
    """Exclude the objects that exist now from garbage collection: loky collects every second, and with torch loaded
    each collection would take as long as a short run."""
    if collect:
        gc.collect()
    gc.freeze()


@cache
def _end_forks() -> None:
    """On Linux, let the processes that this thread forks end with this process. Those of other threads are left alone,
    since they would end with their thread."""
    if sys.platform == "linux":
        thread, prctl, parent = threading.get_ident(), ctypes.CDLL(None).prctl, [os.getpid()]

        def end_with_parent():
            if threading.get_ident() == thread:
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != parent[0]:  # which ended before it could be told
                    os._exit(1)

        os.register_at_fork(before=lambda: parent.__setitem__(0, os.getpid()), after_in_child=end_with_parent)


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, and of NumPy and torch if they are installed."""
    random.seed(seed)
    if find_spec("numpy"):
        import numpy as np

        np.random.seed(seed)
    if find_spec("torch"):  # even if `fn` has yet to import it: its generator would go on from the last run
        import torch

        torch.manual_seed(seed)
