"""Calls of pip: quiet, without dependencies, and optionally for another Python."""

import re
import subprocess
import sys

from rlrepro.lab.limits import PIP_SECONDS, waiting_for

OPTIONS = ("--quiet", "--disable-pip-version-check", "--retries=1", "--timeout=30", "--no-deps")
# Every x86-64 Linux that torch's own wheels support; pip does not accept a range.
PLATFORMS = [f"manylinux{name}_x86_64" for name in ("1", "2010", "2014", *(f"_2_{minor}" for minor in range(5, 29)))]


def pip(command: str, *arguments: str, python: str | None = None) -> subprocess.CompletedProcess:
    """Run `pip command arguments`, without dependencies. With `python`, such as "3.12", only wheels for that Python on
    x86-64 Linux are considered. Raises TookTooLong if pip exceeds its limit."""
    target_options = ["--only-binary=:all:", "--python-version", python, *(f"--platform={name}" for name in PLATFORMS)]
    command_line = [sys.executable, "-m", "pip", command, *OPTIONS, *(target_options if python else ()), *arguments]
    advice = "The package index is slow or does not respond: try again, or set PIP_INDEX_URL to another one."
    with waiting_for(f"pip {command}", PIP_SECONDS, advice) as timeout:
        return subprocess.run(command_line, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout)


def offered(stderr: str) -> list[str]:
    """The versions that the index does have, from pip's error message for a missing version."""
    versions = re.search(r"\(from versions: (.*?)\)", stderr, re.DOTALL)
    return versions[1].split(", ") if versions and versions[1] != "none" else []


def last_error(stderr: str) -> str:
    """The last error message of pip; of a traceback, its last line."""
    lines = [line for line in stderr.splitlines() if line.strip()] or [""]
    errors = [line for line in lines if line.startswith("ERROR") and line != "ERROR: Exception:"]
    return (errors or lines)[-1].strip()
