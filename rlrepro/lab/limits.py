"""Every limit on how long rlrepro waits for something, in seconds.

Each is many times what that takes on two cores. RLREPRO_TIMEOUT_FACTOR multiplies them all, for a slower machine.
Code in `rlrepro/fixes/`, which is copied out, has limits of its own, and none on a user's training runs.
"""

import math
import multiprocessing
import os
import subprocess
from contextlib import contextmanager

FACTOR = "RLREPRO_TIMEOUT_FACTOR"

PIP_SECONDS = 1800.0  # one call of pip, which may download every wheel of a bundle
NPM_SECONDS = 600.0  # one package
BOOK_SECONDS = 1800.0  # Jupyter Book
LOCK_SECONDS = 2 * PIP_SECONDS + BOOK_SECONDS  # a lock whose holder is within a limit of its own
KERNEL_SECONDS = 300.0  # a notebook's kernel starts
RELEASE_SECONDS = 1800.0  # one call of Release.run
CELL_SECONDS = {"smoke": 2400.0, "full": 7200.0}  # above RELEASE_SECONDS, so that a release is named by its own limit
INTERRUPT_SECONDS = 30.0  # a cell that was interrupted still has for its output
END_SECONDS = 30.0  # a process ends that was killed, or has closed its connection
TRAINING_SECONDS = 1500.0  # training runs started together; below RELEASE_SECONDS for the same reason
READY_SECONDS = 120.0  # until all of them have started
SCRIPT_SECONDS = 900.0  # a script of chapter 7, watched
ANSWER_SECONDS = 120.0  # a process that checks an exercise


class TookTooLong(TimeoutError):
    """Something did not end within its limit."""


def limit(seconds: float) -> float:
    """`seconds` times RLREPRO_TIMEOUT_FACTOR. Raises ValueError where either is not a finite number above 0."""
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


def overrun(what: str, allowed: float, advice: str = "") -> str:
    """The message: what was waited for, the limit, and what to do."""
    return (
        f"{what} did not end within its limit of {allowed:g} s. {advice + ' ' if advice else ''}"
        f"If this machine is only slow, run again with {FACTOR}=2 in the environment: it doubles every limit."
    )


@contextmanager
def waiting_for(what: str, seconds: float, advice: str = ""):
    """The limit to give to whatever waits; that it was reached becomes TookTooLong, whose message names `what`."""
    allowed = limit(seconds)
    try:
        yield allowed
    except TookTooLong:  # of something within
        raise
    except (TimeoutError, multiprocessing.TimeoutError, subprocess.TimeoutExpired) as error:
        raise TookTooLong(overrun(what, allowed, advice)) from error


@contextmanager
def locked(path: str | os.PathLike, doing: str):
    """Hold the file lock at `path`. Raises TookTooLong where another process keeps it for longer than LOCK_SECONDS."""
    from filelock import FileLock

    advice = f"Another process holds {path}: it {doing}, or hangs. End that process; its lock ends with it."
    with waiting_for("the wait for a lock", LOCK_SECONDS, advice) as allowed:
        lock = FileLock(path, timeout=allowed)
        lock.acquire(timeout=allowed)
    try:
        yield
    finally:
        lock.release()
