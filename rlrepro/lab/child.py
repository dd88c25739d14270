"""The other end of a Release: runs functions that come over a socket until that is closed."""

import sys
import traceback
from multiprocessing.connection import Connection

import cloudpickle


def answer(message: bytes) -> bytes:
    """Run one pickled (fn, args, kwargs); the pickled (raised, value or exception, traceback)."""
    try:
        fn, args, kwargs = cloudpickle.loads(message)
        return cloudpickle.dumps((False, fn(*args, **kwargs), ""))
    except BaseException as error:
        report = traceback.format_exc()
        try:
            reply = cloudpickle.dumps((True, error, report))
            cloudpickle.loads(reply)  # some exceptions pickle and do not come back
        except Exception:
            from rlrepro.lab.releases import ReleaseError

            reply = cloudpickle.dumps((True, ReleaseError(f"{type(error).__name__}: {error}"), report))
        return reply


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        reply = answer(message)
        sys.stdout.flush()
        connection.send_bytes(reply)


if __name__ == "__main__":
    main()
