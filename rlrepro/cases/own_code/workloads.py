"""Copies the sample project, and runs its scripts under the doctor's watch."""

import os
import re
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rlrepro.cases.common.tianshou_ppo import INTERPRETED
from rlrepro.cases.own_code import Settings
from rlrepro.doctor.live import trial
from rlrepro.doctor.live.command import run
from rlrepro.doctor.live.report import Report
from rlrepro.lab import Release
from rlrepro.lab.limits import SCRIPT_SECONDS, TookTooLong, limit, overrun

SAMPLE_PROJECT = Path(__file__).parent / "sample_project"
STARTUP = Path(__file__).parent / "startup"
PINNED = Release("tianshou==1.0.0")  # in requirements.txt
RLLIB = "newest/frames.py"


def copy_project(folder: Path, settings: Settings) -> Path:
    """A fresh copy of the project, with the sizes that the settings give."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SAMPLE_PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    _set_constant(folder / "ppo.py", "ROLLOUT", settings.rollout)
    _set_constant(folder / "world_model.py", "WRITTEN", settings.written)
    _set_constant(folder / "sweep.py", "SEEDS", settings.seeds)
    _set_constant(folder / "sweep.py", "STEPS", settings.steps)
    _set_constant(folder / "newest" / "sac.py", "RECORDED", settings.recorded)
    return folder


def _set_constant(script: Path, name: str, value: int) -> None:
    text, count = re.subn(rf"^{name} = [\d_]+", f"{name} = {value:_}", script.read_text(), flags=re.MULTILINE)
    if count != 1:
        raise LookupError(f"{script} should have one line `{name} = NUMBER`, found {count}")
    script.write_text(text)


def run_environment(script: str) -> dict[str, str]:
    """Environment variables for a script, so that it imports what its requirements pin: tianshou 1.0.0, or in `newest/`
    what this environment has."""
    paths = [] if script == RLLIB else [STARTUP]
    paths += [] if script.startswith("newest/") else [PINNED.install()]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    return INTERPRETED | {"PYTHONPATH": os.pathsep.join(map(str, paths))}


def run_scripts(project: Path, groups: Iterable[Iterable[str]]) -> dict[str, Report]:
    """The doctor's report on each script: `rlrepro doctor --run -- python SCRIPT`.

    Scripts of a group run at the same time, with one thread each, so that none is reported to wait for the others. The
    groups run one after another. Raises RuntimeError if a script fails, and TookTooLong if it exceeds its time limit.
    """
    reports = {}
    for group in map(tuple, groups):
        variables = {"OMP_NUM_THREADS": "1"} if len(group) > 1 else {}
        with ThreadPoolExecutor() as pool:
            reports |= zip(group, pool.map(partial(_run, project, variables=variables), group), strict=True)
    return reports


def try_variants(project: Path, script: str, report: Report) -> list[trial.Trial]:
    """The further runs of `rlrepro doctor --run --try -- python SCRIPT`, based on the report on the first."""
    return trial.try_variants(_command(script), report, folder=project, stdout=sys.__stderr__)


def _command(script: str) -> list[str]:
    return [sys.executable, "-W", "ignore", script]


def _run(project: Path, script: str, variables: dict[str, str]) -> Report:
    time_limit, start, environment = limit(SCRIPT_SECONDS), time.monotonic(), run_environment(script) | variables
    report, status = run(
        _command(script), folder=project, stdout=sys.__stderr__, seconds=time_limit, environment=environment
    )
    path = os.fspath(project / script)
    if time.monotonic() - start >= time_limit:
        raise TookTooLong(overrun(path, time_limit, "Run it by itself to see why."))
    if status:
        raise RuntimeError(f"{path} ended with status {status}; run it by itself to see why")
    return report
