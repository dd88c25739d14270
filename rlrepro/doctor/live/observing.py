"""An observer of a process, in a process of its own that is nobody's child."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from rlrepro.doctor.live.crowd import Crowd

FOLDER = "RLREPRO_DOCTOR_NOTES"  # the variable that names where notes are kept, as startup/sitecustomize.py reads it
PATIENCE = 10.0  # seconds for the observer to begin, and to write its last
POLL = 0.01


@contextmanager
def observed(folder: Path, *, itself: bool):
    """A Crowd that says, after the block, what an observer saw meanwhile of this process's children, and of this
    process `itself`. The folder is for what it writes; the file `observer` there is its number."""
    crowd = Crowd(cores=1)
    paths = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
    environment = {name: value for name, value in os.environ.items() if name != FOLDER} | {"PYTHONPATH": paths}
    whom = [str(os.getpid()), "all" if itself else "children", str(folder)]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    begun = subprocess.run(
        [sys.executable, "-m", "rlrepro.doctor.live.observer", *whom], env=environment, cwd="/", **quiet
    )
    looks = begun.returncode == 0 and _wait_for(folder / "observer")
    try:
        yield crowd
    finally:
        (folder / "over").touch()
        if looks:
            _wait_for(folder / "ended")
        if (folder / "crowd").exists():
            vars(crowd).update(json.loads((folder / "crowd").read_text()))


def number(folder: Path) -> int:
    """The observer's process, 0 where there is none."""
    path = folder / "observer"
    return int(path.read_text()) if path.exists() else 0


def _wait_for(path: Path) -> bool:
    limit = time.monotonic() + PATIENCE
    while not path.exists() and time.monotonic() < limit:
        time.sleep(POLL)
    return path.exists()
