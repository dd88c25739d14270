"""The other end of a Release: runs functions that come over a socket until that is closed.

A function that runs into its limit ends this process by SIGALRM, which first writes the stack of every thread. The
system keeps that clock, so that it works for a function that never lets go of the interpreter, when the parent is gone,
and without a thread: with faulthandler.dump_traceback_later, a process that a function forks could not exit.
"""

import faulthandler
import importlib.util
import os
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

import cloudpickle


def answer(message: bytes) -> bytes:
    """Run one pickled (fn, args, kwargs). The answer is (what was raised, as text; the value or exception, pickled by
    itself, since it may not unpickle at the other end; the traceback)."""
    try:
        fn, args, kwargs = cloudpickle.loads(message)
        return pickle.dumps(("", cloudpickle.dumps(fn(*args, **kwargs)), ""))
    except BaseException as error:
        raised, report = f"{type(error).__name__}: {error}", traceback.format_exc()
        try:
            pickled = cloudpickle.dumps(error)
            cloudpickle.loads(pickled)  # some exceptions pickle and do not come back
        except Exception:
            pickled = b""
        return pickle.dumps((raised, pickled, report))


def check_origin(package: str, overlay: str) -> None:
    """Raises ReleaseUnavailable where the package would be imported from outside the overlay."""
    from rlrepro.lab.overlays import ReleaseUnavailable

    found = importlib.util.find_spec(package.replace("-", "_"))
    origin = Path(found.origin).resolve() if found and found.origin else None
    if origin is None or not origin.is_relative_to(Path(overlay).resolve()):
        raise ReleaseUnavailable(
            f"{package} would come from {origin}, not from {overlay}: that folder is damaged. Remove it and run again"
        )


def main() -> None:
    descriptor, *package_and_overlay = sys.argv[1:]
    os.set_inheritable(int(descriptor), False)  # a process started here must not keep the line open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    faulthandler.register(signal.SIGALRM, chain=True)
    connection = Connection(int(descriptor))
    while True:
        try:
            allowed, message = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, allowed)
        if package_and_overlay:
            message = cloudpickle.dumps((_checked, (message, *package_and_overlay), {}))
            package_and_overlay = []
        reply = answer(message)
        sys.stdout.flush()
        connection.send_bytes(reply)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _checked(message: bytes, package: str, overlay: str):
    check_origin(package, overlay)
    fn, args, kwargs = cloudpickle.loads(message)
    return fn(*args, **kwargs)


if __name__ == "__main__":
    main()
