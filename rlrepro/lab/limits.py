"""The time limits of everything that rlrepro waits for, in seconds.

Each is many times what the operation takes on two cores. On a slow machine, RLREPRO_TIMEOUT_FACTOR multiplies them all.
Code in `rlrepro/fixes/` can be copied out, so it has its own limits, and none on a user's training runs.
"""

import math
import multiprocessing
import os
import subprocess
from contextlib import contextmanager

FACTOR = "RLREPRO_TIMEOUT_FACTOR"

PIP_SECONDS = 1800.0  # one call of pip, which may download all wheels of a bundle
BOOK_SECONDS = 1800.0  # one build of the site
LOCK_SECONDS = 2 * PIP_SECONDS + BOOK_SECONDS  # longer than the limits of whoever may hold the lock
KERNEL_SECONDS = 300.0  # the start of a notebook's kernel
RELEASE_SECONDS = 1800.0  # one call of Release.run
CELL_SECONDS = {"smoke": 2400.0, "full": 7200.0}  # above RELEASE_SECONDS, so that a release hits its own limit first
INTERRUPT_SECONDS = 30.0  # output of a cell after it was interrupted
END_SECONDS = 30.0  # the end of a process that was killed, or has closed its connection
TRAINING_SECONDS = 1500.0  # training runs started together; below RELEASE_SECONDS for the same reason
READY_SECONDS = 120.0  # the start of all of them
SCRIPT_SECONDS = 900.0  # a watched script of chapter 7
ANSWER_SECONDS = 120.0  # a process that checks an exercise


class TookTooLong(TimeoutError):
    """Something did not end within its limit."""


def limit(seconds: float) -> float:
    """`seconds` times RLREPRO_TIMEOUT_FACTOR. Raises ValueError unless both are finite numbers above 0."""
    text = os.environ.get(FACTOR) or "1"
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise ValueError(f"expected a number above 0 in {FACTOR}, found {text!r}; 2 doubles every limit")
    if not 0 < seconds < math.inf:
        raise ValueError(f"expected a limit in seconds above 0, found {seconds!r}")
    return seconds * factor


def overrun(operation: str, timeout: float, advice: str = "") -> str:
    """An error message: what did not end, its limit, and what to do."""
    return (
        f"{operation} did not end within its limit of {timeout:g} s. {advice + ' ' if advice else ''}"
        f"If this machine is just slow, set {FACTOR}=2 in the environment, which doubles every limit, and run again."
    )


@contextmanager
def waiting_for(operation: str, seconds: float, advice: str = ""):
    """The limit to pass to whatever waits. If it is exceeded, raises TookTooLong, whose message names `operation`."""
    timeout = limit(seconds)
    try:
        yield timeout
    except TookTooLong:  # raised by an inner wait
        raise
    except (TimeoutError, multiprocessing.TimeoutError, subprocess.TimeoutExpired) as error:
        raise TookTooLong(overrun(operation, timeout, advice)) from error


@contextmanager
def locked(path: str | os.PathLike, doing: str):
    """Hold the file lock at `path`. Raises TookTooLong if another process holds it for longer than LOCK_SECONDS."""
    from filelock import FileLock

    advice = f"Another process holds {path}: it {doing}, or hangs. End that process to release its lock."
    with waiting_for("the wait for a lock", LOCK_SECONDS, advice) as timeout:
        lock = FileLock(path, timeout=timeout)
        lock.acquire(timeout=timeout)
    try:
        yield
    finally:
        lock.release()
