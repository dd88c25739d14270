"""A small project that has all the problems of this course: `sample_project/`, four scripts and their pins.

Its scripts are texts to be read and run by the doctor, and never imported.
"""

import os
import shutil
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rlrepro.doctor.live.command import run
from rlrepro.doctor.live.report import Report
from rlrepro.doctor.live.trial import try_variants
from rlrepro.lab.limits import SCRIPT_SECONDS, TookTooLong, limit, overrun

SAMPLE_PROJECT = Path(__file__).parent / "sample_project"
TOGETHER = ("ppo.py", "recommender.py")  # of them only rows and bytes are kept: they may run side by side
ALONE = ("world_model.py", "sweep.py")


def copy(folder: Path) -> Path:
    """A fresh copy of the project."""
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(SAMPLE_PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__")))


def run_all(folder: Path) -> dict[str, Report]:
    """What was seen of each script of the project: `rlrepro doctor --run -- python SCRIPT`. Raises RuntimeError where
    one fails, and TookTooLong where one does not end."""
    with ThreadPoolExecutor() as threads:
        found = dict(zip(TOGETHER, threads.map(lambda name: _run(folder, name), TOGETHER), strict=True))
    return found | {name: _run(folder, name) for name in ALONE}


def try_fixes(folder: Path, name: str, seen: Report) -> Report:
    """What was seen of a script, now with its trials: what `rlrepro doctor --try -- python SCRIPT` runs after that."""
    seen.trials = try_variants(_command(name), seen, folder=folder, stdout=sys.__stderr__)
    return seen


def _command(name: str) -> list[str]:
    return [sys.executable, "-W", "ignore", name]


def _run(folder: Path, name: str) -> Report:
    allowed, start = limit(SCRIPT_SECONDS), time.monotonic()
    report, status = run(_command(name), folder=folder, stdout=sys.__stderr__, seconds=allowed)
    if time.monotonic() - start >= allowed:
        raise TookTooLong(overrun(os.fspath(folder / name), allowed, "Run it by itself to see why."))
    if status:
        raise RuntimeError(f"{os.fspath(folder / name)} ended with status {status}; run it by itself to see why")
    return report


def measures(seen: dict[str, Report]) -> dict[str, tuple[float, str]]:
    """What each problem costs, by its name: (value, unit)."""
    (times,) = _buffer(seen["world_model.py"]).seconds.values()
    recommender = _buffer(seen["recommender.py"]).bytes
    sweep = seen["sweep.py"]
    return {
        "largest_pass": (seen["ppo.py"].notes.passes["without gradients"].rows, "rows"),
        "sample": (statistics.median(times[max(times)]), "s"),
        "train": (sweep.notes.stages["train"].seconds, "s"),
        "transition": (sum(recommender.values()), "B"),
    }


def _buffer(report: Report):
    (buffer,) = report.notes.buffers.values()
    return buffer
