"""The worker's side of a Release: run functions that arrive over a socket, until it is closed.

If a function exceeds its limit, SIGALRM writes the stack of every thread and ends this process. The timer is the
system's, so it also works if a function never releases the interpreter or the parent is gone. It does not need a thread
either: with faulthandler.dump_traceback_later, processes that a function forks could not exit. If the parent is killed,
this process ends with everything that it has started, so that nothing runs beside the next measurement.
"""

import faulthandler
import importlib.util
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import cloudpickle

from rlrepro.lab.garbage_collector import importing

ORPHAN_SECONDS = 0.5  # between checks that the parent still exists


def handle(message: bytes, load: Callable = cloudpickle.loads) -> bytes:
    """Run one pickled (fn, args, kwargs). The reply is a pickled (error message or "", value or exception, traceback);
    the value is pickled separately, because the other end may fail to unpickle it."""
    try:
        fn, args, kwargs = load(message)
        return pickle.dumps(("", cloudpickle.dumps(fn(*args, **kwargs)), ""))
    except BaseException as error:
        raised, report = f"{type(error).__name__}: {error}", traceback.format_exc()
        try:
            pickled = cloudpickle.dumps(error)
            cloudpickle.loads(pickled)  # some exceptions pickle but do not unpickle
        except Exception:
            pickled = b""
        return pickle.dumps((raised, pickled, report))


def check_origin(package: str, overlay: str) -> None:
    """Raise ReleaseUnavailable if the package would be imported from outside the overlay."""
    from rlrepro.lab.overlays import ReleaseUnavailable

    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None:
        raise ReleaseUnavailable(
            f"{package} has no module {package.replace('-', '_')!r}: only libraries that are imported under their own "
            "name can be run as releases"
        )
    origin = Path(spec.origin).resolve() if spec.origin else None
    if origin is None or not origin.is_relative_to(Path(overlay).resolve()):
        raise ReleaseUnavailable(
            f"{package} would come from {origin}, not from {overlay}: that folder is damaged. Remove it and run again"
        )


def load_first(package_and_overlay: list[str], message: bytes):
    """Unpickle the first message, which imports libraries. Raises ReleaseUnavailable as `check_origin` does."""
    if package_and_overlay:
        check_origin(*package_and_overlay)
    with importing():
        return cloudpickle.loads(message)


def main() -> None:
    descriptor, *package_and_overlay = sys.argv[1:]
    os.set_inheritable(int(descriptor), False)  # a process started here must not keep the socket open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    faulthandler.register(signal.SIGALRM, chain=True)
    threading.Thread(target=_exit_with, args=(os.getppid(),), daemon=True).start()
    connection, load = Connection(int(descriptor)), partial(load_first, package_and_overlay)
    while True:
        try:
            allowed, message = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, allowed)
        reply, load = handle(message, load), cloudpickle.loads
        sys.stdout.flush()
        connection.send_bytes(reply)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _exit_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN_SECONDS)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
