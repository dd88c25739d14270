"""rlrepro doctor --run: a command that trains, watched from its start to its end."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

import psutil

from rlrepro.doctor.live import ending
from rlrepro.doctor.live.notes import FOLDER, Notes, NotWhole
from rlrepro.doctor.live.report import Report
from rlrepro.doctor.live.sampler import sampled

STARTUP = Path(__file__).parent / "startup"
PATIENCE = 10.0  # seconds that an interrupted command has to end


def run(
    command: Sequence[str],
    *,
    folder: str | Path = ".",
    seconds: float | None = None,
    stdout=None,
    environment: Mapping[str, str] | None = None,
) -> tuple[Report, int]:
    """Run a command in a folder and watch every Python process of it that has rlrepro installed: (what was seen, exit
    status).

    After `seconds`, if given, it is interrupted as by Ctrl-C but without a traceback, and killed if it is still there
    10 seconds later. Its output goes where this process's does, or to `stdout`; `environment` is added to this
    process's variables. Raises OSError if it can't be started.
    """
    script = next((word for word in command if word.endswith(".py")), command[0])
    report = Report(script, Path(folder).resolve())
    # a child that outlives the command may still write while the folder is removed
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as kept:
        kept = Path(kept)
        variables = os.environ | (environment or {})
        variables |= watching(kept, variables.get("PYTHONPATH"))
        start = monotonic()
        with sampled(itself=False) as report.crowd:
            process = subprocess.Popen(command, env=variables, cwd=folder, stdout=stdout)
            status, report.ended = _wait(process, seconds, kept)
        report.seconds = monotonic() - start
        _collect(report, kept)
    report.close()
    return report, status


def watching(kept: Path, python_path: str | None) -> dict[str, str]:
    """The variables with which a Python process keeps its notes in a folder, besides its own path."""
    paths = [str(STARTUP), *filter(None, [python_path])]
    return {"PYTHONPATH": os.pathsep.join(paths), FOLDER: str(kept)}


def _collect(report: Report, kept: Path) -> None:
    """Put together what the processes have left."""
    for path in sorted(kept.glob("*.json")):
        try:
            report.notes.add(Notes.read(path))
        except NotWhole as error:
            report.unwatched.append(f"notes of process {path.stem} can't be read: {error}")
    report.unwatched += [f"not watched: {path.read_text()}" for path in sorted(kept.glob("*.failed"))]
    if not report.unwatched and not any(kept.glob("*.begun")):
        report.unwatched = ["not watched: no Python process read PYTHONPATH (python -I, -E and -S ignore it)"]


def _wait(process: subprocess.Popen, seconds: float | None, kept: Path) -> tuple[int, bool]:
    """(exit status as a shell gives it, whether it was ended here). Ctrl-C reaches the command too, which decides what
    that means; a second Ctrl-C ends it."""
    try:
        try:
            process.wait(seconds)
        except KeyboardInterrupt:
            process.wait(seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as why:
        interrupt(process, kept)
        return (0 if isinstance(why, subprocess.TimeoutExpired) else ending.STATUS), True
    return (128 - process.returncode if process.returncode < 0 else process.returncode), False


def interrupt(process: subprocess.Popen, kept: Path) -> None:
    """As Ctrl-C does, which reaches the children as well; what does not end is killed."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        family = [root, *root.children(recursive=True)]
        for each in family:
            listens = ending.SIGNAL is not None and (kept / f"{each.pid}.begun").exists()
            with suppress(psutil.NoSuchProcess):
                each.send_signal(ending.SIGNAL if listens else signal.SIGINT)
        deaf = psutil.wait_procs(family, timeout=PATIENCE)[1]
        for each in deaf:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(deaf, timeout=PATIENCE)  # a process that is killed is there for a moment longer
    with suppress(subprocess.TimeoutExpired):  # a process that is stuck in the kernel is left to it
        process.wait(PATIENCE)
