"""Release("tianshou==1.0.0"): run the same function under another release of a library.

A release runs in a child process with its overlay first on the import path; torch and everything else are the same. The
child serves all calls, so changes that a function makes to a module persist.
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
from rlrepro.metadata import tomllib

__all__ = ["Release", "ReleaseDied", "ReleaseError", "ReleaseTimeout", "ReleaseUnavailable", "Source"]

UPSTREAM = Path(__file__).with_name("upstream.toml")  # addresses of a release's source lines


class Release:
    """One release of a library, under which functions can be run.

    Only the library itself is installed. What it imports, torch among it, must be installed in this environment: if the
    release needs a package that its newest release no longer needs, install that too.

    `requirement` is "name==version", or just a name together with `path`, a folder with its source, which the variable
    RLREPRO_NAME can also provide. `environment` adds variables to those of this process. Raises ValueError for any
    other requirement, and ReleaseUnavailable if the folder does not contain the package.

    Garbage collections in its process skip the modules that the first function brings with it, as after `gc.freeze()`.
    """

    def __init__(
        self, requirement: str, *, path: str | Path | None = None, environment: Mapping[str, str] | None = None
    ):
        self.requirement, self.environment = requirement, dict(environment or {})
        self._lock = threading.Lock()
        if "==" in requirement:
            if path:
                raise ValueError(f"expected a name with path=, or 'name==version', found {requirement!r} and {path}")
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
        """The folder that comes first on the import path, or None if this release is the installed one.

        Raises ReleaseUnavailable if the release is missing and can't be installed.
        """
        if self.path or is_installed(self.name, self.version):
            return self.path
        return install(self.requirement)

    def run(self, fn, /, *args, timeout: float = RELEASE_SECONDS, **kwargs):
        """Run `fn(*args, **kwargs)` under this release. `fn` may be defined in a notebook. It and its result are sent
        by cloudpickle, so return plain numbers and arrays instead of the library's own objects.

        The output of `fn` is printed here. If it raises an exception, the same exception is raised here, with the
        child's traceback as its cause. Raises ReleaseUnavailable if the release can't be installed, ReleaseDied if the
        process ended, and ReleaseError if the result can't be unpickled here. After `timeout` seconds (times
        RLREPRO_TIMEOUT_FACTOR), the process and everything that it has started are killed; ReleaseTimeout, a
        ReleaseDied, shows the stacks of its threads. The next call then starts a new process. Calls from several
        threads run one after another.
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
        is_own = not self.path and file.split("/")[0].replace("_", "-") == self.name
        url = tomllib.loads(UPSTREAM.read_text()).get(self.name, "") if is_own else ""
        url = url.format(version=self.version, file=file, first=line, last=end)
        return Source(f"{self.requirement} {target}", text, line, url)

    def close(self) -> None:
        """End the child process, if there is one; a call in another thread then raises ReleaseDied. `run` starts a new
        one."""
        if (child := self._child) is not None:
            child.kill()
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
    if not (folder / name.replace("-", "_") / "__init__.py").exists():
        raise ReleaseUnavailable(
            f"{folder} holds no package {name!r} (no {name.replace('-', '_')}/__init__.py); pass its source folder"
        )
    return folder


def _get_source(target: str) -> tuple[str, int, int, str]:
    """(text, first line, last line, file relative to the folder that it is imported from)."""
    import importlib
    from operator import attrgetter

    module, _, attribute = target.partition(":")
    code = importlib.import_module(module)
    code = inspect.unwrap(attrgetter(attribute)(code)) if attribute else code
    lines, first = inspect.getsourcelines(code)
    first = max(1, first)  # getsourcelines returns 0 for a module
    top = Path(importlib.import_module(module.split(".")[0]).__file__).parents[1]
    file = os.path.relpath(inspect.getsourcefile(code), top).replace(os.sep, "/")
    return inspect.cleandoc("\n" + "".join(lines)) + "\n", first, first + len(lines) - 1, file


@dataclass(frozen=True)
class Source:
    """A piece of a library's source, shown as code in a notebook."""

    label: str
    text: str
    first_line: int
    url: str = ""  # of these lines in the library's repository

    def __str__(self) -> str:
        return self.text

    def diff(self, other: "Source") -> "SourceDiff":
        """A unified diff from this source to `other`."""
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
