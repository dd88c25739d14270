"""Release("tianshou==1.0.0"): the same function under another release of a library.

A release runs in a child process with its overlay first on the import path, over the same torch and everything else.
The child is kept for further calls, so that what a function leaves in a module is there for the next.
"""

import codecs
import inspect
import os
import pickle
import socket
import subprocess
import sys
import threading
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

POLL_SECONDS = 1.0  # between looks at whether a silent child is still there
UPSTREAM = {  # where a release's own lines can be read
    "tianshou": "https://github.com/thu-ml/tianshou/blob/v{version}/{file}#L{first}-L{last}",
    "torchrl": "https://github.com/pytorch/rl/blob/v{version}/{file}#L{first}-L{last}",
    "stable-baselines3": "https://github.com/DLR-RM/stable-baselines3/blob/v{version}/{file}#L{first}-L{last}",
}
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
        self._lock = threading.Lock()
        if "==" in requirement:
            self.name, self.version = parse_release(requirement)
            self.requirement = f"{self.name}=={self.version}"
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
        The next call after either starts a fresh process. Calls from several threads take turns.
        """
        with self._lock:
            if self._child is None or not self._child.alive:
                overlay = self.install()
                environment = _environment(overlay) | self.environment
                self._child = _Child(self.requirement, self.name, overlay, environment)
            return self._child.call(fn, args, kwargs)

    def source(self, target: str) -> "Source":
        """The source of "package.module:Class.method" in this release."""
        text, line, end, file = self.run(_get_source, target)
        own = not self.path and file.split("/")[0].replace("_", "-") == self.name
        url = UPSTREAM.get(self.name, "") if own else ""
        url = url.format(version=self.version, file=file, first=line, last=end)
        return Source(f"{self.requirement} {target}", text, line, url)

    def close(self) -> None:
        """End the child process, if there is one. `run` starts another."""
        with self._lock:
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


def _get_source(target: str) -> tuple[str, int, int, str]:
    """The text, its first and last line, and its file below the folder that it is imported from."""
    import importlib
    from operator import attrgetter

    module, _, attribute = target.partition(":")
    found = importlib.import_module(module)
    found = inspect.unwrap(attrgetter(attribute)(found)) if attribute else found
    lines, first = inspect.getsourcelines(found)
    first = max(1, first)  # 0 of a module
    top = Path(importlib.import_module(module.split(".")[0]).__file__).parents[1]
    file = os.path.relpath(inspect.getsourcefile(found), top).replace(os.sep, "/")
    return inspect.cleandoc("\n" + "".join(lines)) + "\n", first, first + len(lines) - 1, file


class _Child:
    """A process that runs functions under one import path."""

    def __init__(self, label: str, package: str, overlay: Path | None, environment: dict[str, str]):
        self.label = label
        where = [package, str(overlay)] if overlay else []  # the child refuses to import the package from elsewhere
        here, there = socket.socketpair()
        with there:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rlrepro.lab.child", str(there.fileno()), *where],
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


def _end(process, connection):
    connection.close()
    process.kill()
    process.wait()
    process.stdout.close()


def _environment(overlay: Path | None) -> dict[str, str]:
    """The overlay, then this process's own import path; the working folder only where that path names it."""
    if overlay and os.pathsep in str(overlay):
        raise ReleaseUnavailable(f"{overlay} has {os.pathsep!r} in its name, which no import path can hold; move it")
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
    url: str = ""  # of these lines where the library is developed

    def __str__(self) -> str:
        return self.text

    def diff(self, other: "Source") -> "SourceDiff":
        """What changes from this source to `other`, as a unified diff."""
        lines = unified_diff(self.text.splitlines(), other.text.splitlines(), self.label, other.label, lineterm="")
        return SourceDiff("\n".join(lines))

    def _repr_markdown_(self) -> str:
        lines = f"[line {self.first_line}]({self.url})" if self.url else f"line {self.first_line}"
        return f"`{self.label}`, {lines}\n```python\n{self.text}```"


@dataclass(frozen=True)
class SourceDiff:
    text: str

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"```diff\n{self.text}\n```"
