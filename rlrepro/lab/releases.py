"""Release("tianshou==1.0.0"): the same function under another release of a library.

A release runs in a child process with its overlay first on the import path, over the same torch and everything else.
The child is kept for further calls, so that what a function leaves in a module is there for the next.
"""

import inspect
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from rlrepro.lab.limits import RELEASE_SECONDS
from rlrepro.lab.overlays import ReleaseUnavailable, install, is_installed, parse_release
from rlrepro.lab.release_process import ReleaseDied, ReleaseError, ReleaseProcess, ReleaseTimeout, environment

__all__ = ["Release", "ReleaseDied", "ReleaseError", "ReleaseTimeout", "ReleaseUnavailable", "Source"]

UPSTREAM = {  # where a release's own lines can be read
    "tianshou": "https://github.com/thu-ml/tianshou/blob/v{version}/{file}#L{first}-L{last}",
    "torchrl": "https://github.com/pytorch/rl/blob/v{version}/{file}#L{first}-L{last}",
    "stable-baselines3": "https://github.com/DLR-RM/stable-baselines3/blob/v{version}/{file}#L{first}-L{last}",
}


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

    def run(self, fn, /, *args, timeout: float = RELEASE_SECONDS, **kwargs):
        """`fn(*args, **kwargs)` under this release. `fn` may be defined in a notebook; it and its result travel by
        cloudpickle, so return plain numbers and arrays rather than the library's own objects.

        What `fn` prints appears here. An exception it raises is raised here as itself, with the child's traceback as
        its cause. Raises ReleaseDied where the process ended, ReleaseError where the result can't be unpickled here.
        After `timeout` seconds (times RLREPRO_TIMEOUT_FACTOR) the process is killed, with all that it has started:
        ReleaseTimeout, a ReleaseDied, shows where its threads were. The next call after a death starts a fresh
        process. Calls from several threads take turns.
        """
        with self._lock:
            if self._child is None or not self._child.alive:
                overlay = self.install()
                variables = environment(overlay) | self.environment
                self._child = ReleaseProcess(self.requirement, self.name, overlay, variables)
            return self._child.call(fn, args, kwargs, timeout)

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
