"""The parent's side of a Release: start the worker process, send it calls, and end it."""

import codecs
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

import cloudpickle

from rlrepro.lab.limits import END_SECONDS, limit, overrun, waiting_for
from rlrepro.lab.overlays import ReleaseUnavailable

POLL_SECONDS = 1.0  # interval of checks whether a silent child is alive
GRACE_SECONDS = 10.0  # for a child to write its stack and exit, before it is killed
KEPT_LINES = 20  # of a child's output, quoted if it dies
STACK_LINES = 300  # quoted after a timeout; the stack of a thread has up to a hundred


class ReleaseError(RuntimeError):
    """A result or an exception of a function that can't be unpickled in this process."""


class ReleaseDied(RuntimeError):
    """The process of a release ended during a call."""


class ReleaseTimeout(ReleaseDied):
    """A call exceeded its time limit, and its process was killed."""


class ReleaseProcess:
    """A process that runs functions with one import path. It leads a process group, so that processes started by a
    function end with it."""

    def __init__(self, label: str, package: str, overlay: Path | None, environment: dict[str, str]):
        self.label = label
        origin = [package, str(overlay)] if overlay else []  # the child refuses to import the package from elsewhere
        parent_end, child_end = socket.socketpair()
        with child_end:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rlrepro.lab.worker", str(child_end.fileno()), *origin],
                pass_fds=[child_end.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self.connection = Connection(parent_end.detach())
        self.tail = deque(maxlen=STACK_LINES)
        self._finalizer = weakref.finalize(self, _end, self.process, self.connection)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None and not self.connection.closed

    def call(self, fn, args, kwargs, seconds: float):
        """Run `fn(*args, **kwargs)` in the process, for at most `seconds` (times RLREPRO_TIMEOUT_FACTOR)."""
        timeout, start = limit(seconds), time.monotonic()
        message = pickle.dumps((timeout, cloudpickle.dumps((fn, args, kwargs))))
        # Killing the process ends every wait below, even one in the middle of a message.
        killer = threading.Timer(timeout + GRACE_SECONDS, _kill, [self.process])
        killer.daemon = True
        killer.start()
        try:
            with _lost_connection_is_eof():
                self.connection.send_bytes(message)
            reply = self._wait()
        except EOFError:
            raise self._death(fn, timeout, time.monotonic() - start) from None
        except BaseException:  # interrupted: the child is still busy, and must not reply later
            self.close()
            raise
        finally:
            killer.cancel()
        return self._unpack(reply)

    def _death(self, fn, timeout: float, seconds: float) -> ReleaseDied:
        """The error for a missing reply, with the last output of the process."""
        with suppress(subprocess.TimeoutExpired):  # it may have closed its connection, but still run
            self.process.wait(limit(END_SECONDS))
        self.close()
        name, code = getattr(fn, "__qualname__", fn), self.process.returncode
        if seconds >= timeout:
            advice = (
                "Its process was killed, with everything that it had started; the next call starts a new one. If the "
                "function needs longer, call run with a larger `timeout`."
            )
            output = f"Its last output, with the stack of each of its threads:\n{''.join(self.tail).strip()}"
            return ReleaseTimeout(f"{overrun(f'{name} under {self.label}', timeout, advice)}\n{output}")
        ending = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        output = "".join(list(self.tail)[-KEPT_LINES:]).strip()
        output = f" Its last output:\n{output}" if output else ""
        return ReleaseDied(
            f"the process of {self.label} {ending} while it ran {name}. The next call starts a new one.{output}"
        )

    def _wait(self) -> bytes:
        """Wait for the child's reply. Its output is printed as it arrives."""
        sources = [self.connection, self.process.stdout]
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while True:
            has_ended = self.process.poll() is not None  # a process that it started may still hold the pipe open
            ready = wait(sources, timeout=0 if has_ended else POLL_SECONDS)
            if self.process.stdout in ready:
                output = os.read(self.process.stdout.fileno(), 2**16)
                if not output:
                    sources.remove(self.process.stdout)
                text = decode(output)
                self.tail.extend(text.splitlines(keepends=True))
                print(text, end="", flush=True)
            elif self.connection in ready:
                with _lost_connection_is_eof():
                    return self.connection.recv_bytes()
            elif has_ended:
                raise EOFError

    def _unpack(self, reply: bytes):
        raised, value, report = pickle.loads(reply)
        cause = ReleaseError(f"\n\nunder {self.label}:\n{report}")
        try:
            value = cloudpickle.loads(value)
        except Exception as error:
            if raised:
                problem = f"can only be unpickled under {self.label}" if value else "can't be pickled and unpickled"
                raise ReleaseError(f"the function raised an exception that {problem}: {raised}") from cause
            raise ReleaseError(
                f"the result of the function under {self.label} can't be unpickled here ({error}); "
                "return plain numbers, strings or arrays"
            ) from error
        if not raised:
            return value
        raise value from cause

    def kill(self) -> None:
        """End the process, also during a call in another thread."""
        if self.process.poll() is None:
            _kill(self.process)

    def close(self):
        self._finalizer()


@contextmanager
def _lost_connection_is_eof():
    """Raises EOFError if the other process has ended, also if that was in the middle of a message."""
    try:
        yield
    except OSError as error:
        raise EOFError from error


def _kill(process: subprocess.Popen) -> None:
    with suppress(ProcessLookupError):  # its group is empty
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen, connection: Connection) -> None:
    connection.close()
    _kill(process)
    with waiting_for(f"process {process.pid}, which was killed,", END_SECONDS) as timeout:
        process.wait(timeout)
    process.stdout.close()


def environment(overlay: Path | None) -> dict[str, str]:
    """Environment variables that put the overlay before this process's import path; the working directory is included
    only if that path lists it."""
    if overlay and os.pathsep in str(overlay):
        raise ReleaseUnavailable(f"{overlay} has {os.pathsep!r} in its name, which import paths can't contain; move it")
    path = [str(overlay)] if overlay else []
    path += [entry or str(Path.cwd()) for entry in sys.path]
    quiet = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # silences torch's profiler
    return quiet | os.environ | {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
