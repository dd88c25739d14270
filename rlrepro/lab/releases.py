"""Release("tianshou==1.0.0"): the same function under another release of a library.

A release runs in a child process with its overlay first on the import path, over the same torch and everything else.
The child is kept for further calls, so that what a function leaves in a module is there for the next.
"""

import inspect
import os
import socket
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from multiprocessing.connection import Connection, wait
from pathlib import Path

import cloudpickle

from rlrepro.lab.overlays import ReleaseUnavailable, install, is_installed, parse_release

__all__ = ["Release", "ReleaseDied", "ReleaseError", "ReleaseUnavailable", "Source"]

KEPT_LINES = 20  # of a child's output, for the message when it dies


class ReleaseError(RuntimeError):
    """An exception or a result of a release's function that can't be brought here as itself."""


class ReleaseDied(RuntimeError):
    """A release's process ended in the middle of a call."""


class Release:
    """One release of a library, to run functions under.

    `requirement` is "name==version", or a name alone together with `path`, a folder of its source; the variable
    RLREPRO_NAME can hold that path. `environment` adds variables to those of this process. Raises ValueError for any
    other text, and ReleaseUnavailable for a folder that does not hold the package.
    """

    def __init__(
        self, requirement: str, *, path: str | Path | None = None, environment: Mapping[str, str] | None = None
    ):
        self.requirement, self.environment = requirement, dict(environment or {})
        if "==" in requirement:
            self.name, self.version = parse_release(requirement)
            self.path = None
        else:
            self.name, self.version = requirement, "source"
            self.path = _source_folder(requirement, path)
        self._child = None

    def __repr__(self):
        return f"Release({self.requirement!r})"

    def install(self) -> Path | None:
        """The folder put first on the import path; None where this Python has that release anyway.

        Raises ReleaseUnavailable where it is not there and can't be installed.
        """
        if self.path or is_installed(self.name, self.version):
            return self.path
        return install(self.requirement)

    def run(self, fn, /, *args, **kwargs):
        """`fn(*args, **kwargs)` under this release. `fn` may be defined in a notebook; it and its result travel by
        cloudpickle, so return plain numbers and arrays rather than the library's own objects.

        What `fn` prints appears here. An exception it raises is raised here as itself, with the child's traceback as
        its cause. Raises ReleaseDied where the process ended, ReleaseError where the result can't be unpickled here.
        The next call after either starts a fresh process.
        """
        if self._child is None or not self._child.alive:
            self._child = _Child(self.requirement, _environment(self.install()) | self.environment)
        return self._child.call(fn, args, kwargs)

    def source(self, target: str) -> "Source":
        """The source of "package.module:Class.method" in this release."""
        text, line = self.run(_get_source, target)
        return Source(f"{self.requirement} {target}", text, line)

    def close(self) -> None:
        """End the child process, if there is one. `run` starts another."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()


def _source_folder(name: str, path) -> Path:
    variable = f"RLREPRO_{name.upper().replace('-', '_')}"
    path = path or os.environ.get(variable)
    if not path:
        raise ValueError(f"expected 'name==version', or path= or ${variable} with a source folder, found {name!r}")
    folder = Path(path).expanduser().resolve()
    if not (folder / name / "__init__.py").exists():
        raise ReleaseUnavailable(f"{folder} holds no package {name!r} (no {name}/__init__.py); give its source folder")
    return folder


def _get_source(target: str) -> tuple[str, int]:
    import importlib
    from operator import attrgetter

    module, _, attribute = target.partition(":")
    found = importlib.import_module(module)
    found = attrgetter(attribute)(found) if attribute else found
    lines, first = inspect.getsourcelines(found)
    return inspect.cleandoc("\n" + "".join(lines)) + "\n", first


class _Child:
    """A process that runs functions under one import path."""

    def __init__(self, label: str, environment: dict[str, str]):
        self.label = label
        here, there = socket.socketpair()
        with there:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rlrepro.lab.child", str(there.fileno())],
                pass_fds=[there.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        self.connection = Connection(here.detach())
        self.tail = deque(maxlen=KEPT_LINES)
        self._finalizer = weakref.finalize(self, _end, self.process, self.connection)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None and not self.connection.closed

    def call(self, fn, args, kwargs):
        message = cloudpickle.dumps((fn, args, kwargs))
        try:
            self.connection.send_bytes(message)
            reply = self._wait()
        except (EOFError, ConnectionError):
            code = self.process.wait()
            self.close()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            said = "".join(self.tail).strip()
            raise ReleaseDied(
                f"the process of {self.label} {how} while it ran {getattr(fn, '__qualname__', fn)}. "
                "The next call starts a fresh one." + (f" Its last output:\n{said}" if said else "")
            ) from None
        except BaseException:  # interrupted: the child is in the middle of something, and must not answer later
            self.close()
            raise
        return self._unpack(reply)

    def _wait(self) -> bytes:
        """The child's answer; what it prints meanwhile is shown as it comes."""
        while True:
            ready = wait([self.connection, self.process.stdout])
            if self.process.stdout in ready and (text := os.read(self.process.stdout.fileno(), 2**16)):
                text = text.decode(errors="replace")
                self.tail.extend(text.splitlines(keepends=True))
                print(text, end="", flush=True)
            elif self.connection in ready:
                return self.connection.recv_bytes()
            else:
                raise EOFError

    def _unpack(self, reply: bytes):
        try:
            raised, value, report = cloudpickle.loads(reply)
        except Exception as error:
            raise ReleaseError(
                f"what the function returned under {self.label} can't be unpickled here ({error}); "
                "return plain numbers, strings or arrays"
            ) from error
        if not raised:
            return value
        raise value from ReleaseError(f"\n\nunder {self.label}:\n{report}")

    def close(self):
        self._finalizer()


def _end(process, connection):
    connection.close()
    process.kill()
    process.wait()
    process.stdout.close()


def _environment(overlay: Path | None) -> dict[str, str]:
    """The overlay, then this process's own import path; the working folder only where that path names it."""
    path = [str(overlay)] if overlay else []
    path += [entry or str(Path.cwd()) for entry in sys.path]
    quiet = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # torch's profiler, once per use
    return quiet | os.environ | {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Source:
    """A piece of a library's source, shown as code in a notebook."""

    label: str
    text: str
    first_line: int

    def __str__(self) -> str:
        return self.text

    def diff(self, other: "Source") -> "SourceDiff":
        """What changes from this source to `other`, as a unified diff."""
        lines = unified_diff(self.text.splitlines(), other.text.splitlines(), self.label, other.label, lineterm="")
        return SourceDiff("\n".join(lines))

    def _repr_markdown_(self) -> str:
        return f"`{self.label}`, line {self.first_line}\n```python\n{self.text}```"


@dataclass(frozen=True)
class SourceDiff:
    text: str

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"```diff\n{self.text}\n```"
