"""Create an environment for each release, install the wheel into it, and run the fixes' own tests there."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlrepro.metadata import tomllib

PLAN = tomllib.loads(Path(__file__).with_name("environments.toml").read_text())
# The interpreters themselves: uv would find pyenv's shims, which refuse versions that are not selected.
PYENV = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin"))
TIMEOUT_S = 900  # for an installation, and for the tests of a fix


class UvMissing(RuntimeError):
    """uv, which creates the environments, is not installed."""


@dataclass(frozen=True)
class Environment:
    """A Python version, the requirements installed for it, and the fixes tested there."""

    python: str
    requirements: tuple[str, ...]
    fixes: tuple[str, ...]

    @property
    def release(self) -> tuple[str, str]:
        """The library that the environment is for, and its release."""
        name, release = self.requirements[0].split("==")
        return name, release


@dataclass(frozen=True)
class Outcome:
    """Whether a fix works in an environment, and what is installed there."""

    environment: Environment
    fix: str
    works: bool
    reason: str  # why it does not work; empty if it does
    versions: dict[str, str]


def environments(only: tuple[str, ...] = ()) -> list[Environment]:
    """All planned environments, or those whose release starts with one of these ("tianshou", "torchrl==0.6")."""
    all_environments = [
        Environment(entry["python"], tuple(entry["requirements"]), tuple(entry["fixes"]))
        for entry in PLAN["environments"]
    ]
    return [environment for environment in all_environments if not only or environment.requirements[0].startswith(only)]


def outcomes(environment: Environment, wheel: Path) -> Iterator[Outcome]:
    """Create the environment in a temporary folder and test each fix in it. Raises UvMissing."""
    with tempfile.TemporaryDirectory(prefix="rlrepro-matrix-") as folder:
        python = Path(folder) / "venv" / "bin" / "python"
        error = make(python, environment.python, wheel, "pytest", *environment.requirements)
        versions = {} if error else _versions(python)
        for fix in environment.fixes:
            yield Outcome(environment, fix, *_test(python, fix, folder, error), versions)


def make(python: Path, version: str, *requirements: str | Path) -> str:
    """Create an environment for that version of Python, whose interpreter is `python` (FOLDER/bin/python), and install
    into it.

    Returns an empty string, or the reason for a failure. Raises UvMissing.
    """
    return call("uv", "venv", "--quiet", "--python", version, python.parents[1]) or call(
        "uv", "pip", "install", "--quiet", "--python", python, *requirements
    )


def _test(python: Path, fix: str, folder: str, error: str) -> tuple[bool, str]:
    if error:
        return False, f"can't be installed: {error}"
    module = f"rlrepro.fixes.{PLAN['fixes'][fix]['test'].removesuffix('.py').replace('/', '.')}"
    options = ("-q", "-rs", "--no-header", "--tb=short", "-p", "no:cacheprovider", "--rootdir", folder)
    test_error = call(python, "-m", "pytest", *options, "--pyargs", module, folder=folder)
    return not test_error, test_error


def call(*command, folder: str | Path | None = None) -> str:
    """Run a command. Returns an empty string, or the error in its output if it failed. Raises UvMissing."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["OMP_NUM_THREADS"] = "1"  # the tests' networks are small
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *map(str, PYENV), environment["PATH"]])
    try:
        completed = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, cwd=folder, env=environment, timeout=TIMEOUT_S
        )
    except FileNotFoundError:
        raise UvMissing(f"{command[0]}, which creates the environments, was not found: pip install uv") from None
    except subprocess.TimeoutExpired:
        return f"not finished after {TIMEOUT_S} s"
    return "" if completed.returncode == 0 else _reason(completed.stdout + completed.stderr)


def _reason(text: str) -> str:
    """The error in the output of pytest or uv; the last line of any other output.

    uv breaks its message into lines, depending on the width of the terminal, so they are joined.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for marker in (r"E ", r"SKIPPED \[\d+\] \S+: ", "╰─▶", "cause:", "error:"):
        for number, line in enumerate(lines):
            if match := re.match(marker, line):
                reason = line if marker[0] in "ES" else " ".join(lines[number:])
                return " ".join(reason[match.end() :].split())[:300]
    return lines[-1][:300] if lines else "failed without output"


def _versions(python: Path) -> dict[str, str]:
    script = (
        "import json, platform; from importlib import metadata;"
        "print(json.dumps({package.name.lower(): package.version for package in metadata.distributions()}"
        "| {'python': platform.python_version()}))"
    )
    completed = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    return json.loads(completed.stdout)
