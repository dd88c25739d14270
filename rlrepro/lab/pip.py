"""How pip is called: quietly, for a package alone, and for another Python where one is named."""

import re
import subprocess
import sys

from rlrepro.lab.limits import PIP_SECONDS, waiting_for

ALONE = ("--quiet", "--disable-pip-version-check", "--retries=1", "--timeout=30", "--no-deps")
# Any Linux on x86-64 that torch's own wheels run on; pip takes only the names it is given.
PLATFORMS = [f"manylinux{name}_x86_64" for name in ("1", "2010", "2014", *(f"_2_{minor}" for minor in range(5, 29)))]


def pip(command: str, *arguments: str, python: str | None = None) -> subprocess.CompletedProcess:
    """`pip command arguments`, without dependencies. With `python`, such as "3.12", only wheels for that Python on
    Linux of x86-64 count. Raises TookTooLong where it does not end."""
    other = ["--only-binary=:all:", "--python-version", python, *(f"--platform={each}" for each in PLATFORMS)]
    line = [sys.executable, "-m", "pip", command, *ALONE, *(other if python else ()), *arguments]
    advice = "Its package index answers too slowly, or stays silent: try again, or name another one in PIP_INDEX_URL."
    with waiting_for(f"pip {command}", PIP_SECONDS, advice) as allowed:
        return subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=allowed)


def offered(stderr: str) -> list[str]:
    """The versions that the index has instead, where pip says that it found no such version."""
    found = re.search(r"\(from versions: (.*?)\)", stderr, re.DOTALL)
    return found[1].split(", ") if found and found[1] != "none" else []


def last_error(stderr: str) -> str:
    """What pip said last."""
    return ([line for line in stderr.splitlines() if line.startswith("ERROR")] or [stderr.strip()])[-1]
