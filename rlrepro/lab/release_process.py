"""This end of a Release: its process, the calls sent to it, and how it is ended."""

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
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

import cloudpickle

from rlrepro.lab.limits import END_SECONDS, limit, overrun, waiting_for
from rlrepro.lab.overlays import ReleaseUnavailable

POLL_SECONDS = 1.0  # between looks at whether a silent child is still there
GRACE_SECONDS = 10.0  # for a child to write its stack and end by itself, before it is killed from here
KEPT_LINES = 20  # of a child's output, for the message when it dies
STACK_LINES = 300  # when it ran into its limit: a thread's stack has up to a hundred


class ReleaseError(RuntimeError):
    """An exception or a result of a release's function that can't be brought here as itself."""


class ReleaseDied(RuntimeError):
    """A release's process ended in the middle of a call."""


class ReleaseTimeout(ReleaseDied):
    """A call ran into its limit, and its process was killed."""


class ReleaseProcess:
    """A process that runs functions under one import path. It leads a process group, so that what a function has
    started ends with it."""

    def __init__(self, label: str, package: str, overlay: Path | None, environment: dict[str, str]):
        self.label = label
        where = [package, str(overlay)] if overlay else []  # the child refuses to import the package from elsewhere
        here, there = socket.socketpair()
        with there:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rlrepro.lab.worker", str(there.fileno()), *where],
                pass_fds=[there.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self.connection = Connection(here.detach())
        self.tail = deque(maxlen=STACK_LINES)
        self._finalizer = weakref.finalize(self, _end, self.process, self.connection)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None and not self.connection.closed

    def call(self, fn, args, kwargs, seconds: float):
        """`fn(*args, **kwargs)` there, within so many seconds (times the factor of `limits`)."""
        allowed, start = limit(seconds), time.monotonic()
        message = pickle.dumps((allowed, cloudpickle.dumps((fn, args, kwargs))))
        # Whatever waits below, in a send or halfway through an answer, goes on when the process is gone.
        killer = threading.Timer(allowed + GRACE_SECONDS, _kill, [self.process])
        killer.daemon = True
        killer.start()
        try:
            self.connection.send_bytes(message)
            reply = self._wait()
        except (EOFError, ConnectionError):
            raise self._death(fn, allowed, time.monotonic() - start) from None
        except BaseException:  # interrupted: the child is in the middle of something, and must not answer later
            self.close()
            raise
        finally:
            killer.cancel()
        return self._unpack(reply)

    def _death(self, fn, allowed: float, seconds: float) -> ReleaseDied:
        """Why there is no answer, and what the process printed last."""
        with suppress(subprocess.TimeoutExpired):  # it may have closed its connection and live on
            self.process.wait(limit(END_SECONDS))
        self.close()
        name, code = getattr(fn, "__qualname__", fn), self.process.returncode
        if seconds >= allowed:
            advice = (
                "Its process was killed, with all that it had started; the next call starts a fresh one. For a "
                "function that needs longer, call run with a larger `timeout`."
            )
            said = f"Its last output, with the stack of each of its threads:\n{''.join(self.tail).strip()}"
            return ReleaseTimeout(f"{overrun(f'{name} under {self.label}', allowed, advice)}\n{said}")
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        said = "".join(list(self.tail)[-KEPT_LINES:]).strip()
        said = f" Its last output:\n{said}" if said else ""
        return ReleaseDied(
            f"the process of {self.label} {how} while it ran {name}. The next call starts a fresh one.{said}"
        )

    def _wait(self) -> bytes:
        """The child's answer; what it prints meanwhile is shown as it comes."""
        sources = [self.connection, self.process.stdout]
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while True:
            ended = self.process.poll() is not None  # a process it started may hold both ends open
            ready = wait(sources, timeout=0 if ended else POLL_SECONDS)
            if self.process.stdout in ready:
                output = os.read(self.process.stdout.fileno(), 2**16)
                if not output:
                    sources.remove(self.process.stdout)
                text = decode(output)
                self.tail.extend(text.splitlines(keepends=True))
                print(text, end="", flush=True)
            elif self.connection in ready:
                return self.connection.recv_bytes()
            elif ended:
                raise EOFError

    def _unpack(self, reply: bytes):
        raised, value, report = pickle.loads(reply)
        cause = ReleaseError(f"\n\nunder {self.label}:\n{report}")
        try:
            value = cloudpickle.loads(value)
        except Exception as error:
            if raised:
                raise ReleaseError(f"an exception that exists only under {self.label}: {raised}") from cause
            raise ReleaseError(
                f"what the function returned under {self.label} can't be unpickled here ({error}); "
                "return plain numbers, strings or arrays"
            ) from error
        if not raised:
            return value
        raise value from cause

    def close(self):
        self._finalizer()


def _kill(process: subprocess.Popen) -> None:
    with suppress(ProcessLookupError):  # nobody is left in its group
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen, connection: Connection) -> None:
    connection.close()
    _kill(process)
    with waiting_for(f"process {process.pid}, which was killed,", END_SECONDS) as allowed:
        process.wait(allowed)
    process.stdout.close()


def environment(overlay: Path | None) -> dict[str, str]:
    """The overlay, then this process's own import path; the working folder only where that path names it."""
    if overlay and os.pathsep in str(overlay):
        raise ReleaseUnavailable(f"{overlay} has {os.pathsep!r} in its name, which no import path can hold; move it")
    path = [str(overlay)] if overlay else []
    path += [entry or str(Path.cwd()) for entry in sys.path]
    quiet = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # torch's profiler, once per use
    return quiet | os.environ | {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
