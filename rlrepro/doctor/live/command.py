"""rlrepro doctor --run: watch a command that trains, from its start to its end."""

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
from rlrepro.doctor.live.notes import FOLDER, InvalidNotes, Notes
from rlrepro.doctor.live.report import Report
from rlrepro.doctor.live.sampler import sampled

STARTUP = Path(__file__).parent / "startup"
PATIENCE = 10.0  # seconds that an interrupted command has left to end


def run(
    command: Sequence[str],
    *,
    folder: str | Path = ".",
    seconds: float | None = None,
    stdout=None,
    environment: Mapping[str, str] | None = None,
) -> tuple[Report, int]:
    """Run a command in a folder and watch each of its Python processes that has rlrepro installed. Returns (report,
    exit status).

    After `seconds`, if given, the command is interrupted as by Ctrl-C but without a traceback, and killed if it is
    still running 10 seconds later. Its output goes to `stdout`, or where the output of this process goes. `environment`
    is added to the variables of this process. Raises OSError if the command can't be started.
    """
    script = next((argument for argument in command if argument.endswith(".py")), command[0])
    report = Report(script, Path(folder).resolve())
    # a child that outlives the command may still write while the folder is removed
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as notes_folder:
        notes_folder = Path(notes_folder)
        variables = os.environ | (environment or {})
        variables |= watching(notes_folder, variables.get("PYTHONPATH"))
        start = monotonic()
        with sampled(itself=False) as report.crowd:
            process = subprocess.Popen(command, env=variables, cwd=folder, stdout=stdout)
            status, report.ended = _wait(process, seconds, notes_folder)
        report.seconds = monotonic() - start
        _collect(report, notes_folder)
    report.close()
    return report, status


def watching(notes_folder: Path, python_path: str | None) -> dict[str, str]:
    """The environment variables that make a Python process write its notes to a folder, beside its own PYTHONPATH."""
    paths = [str(STARTUP), *filter(None, [python_path])]
    return {"PYTHONPATH": os.pathsep.join(paths), FOLDER: str(notes_folder)}


def _collect(report: Report, notes_folder: Path) -> None:
    """Merge the notes that the processes left."""
    for path in sorted(notes_folder.glob("*.json")):
        try:
            report.notes.add(Notes.read(path))
        except InvalidNotes as error:
            report.unwatched.append(f"notes of process {path.stem} can't be read: {error}")
    report.unwatched += [f"not watched: {path.read_text()}" for path in sorted(notes_folder.glob("*.failed"))]
    if not report.unwatched and not any(notes_folder.glob("*.begun")):
        report.unwatched = [
            "not watched: no Python process loaded rlrepro's sitecustomize (python -I, -E and -S don't)"
        ]


def _wait(process: subprocess.Popen, seconds: float | None, notes_folder: Path) -> tuple[int, bool]:
    """(exit status as a shell reports it, whether the command was ended here). Ctrl-C also reaches the command, which
    decides how to handle it; a second Ctrl-C ends it."""
    try:
        try:
            process.wait(seconds)
        except KeyboardInterrupt:
            process.wait(seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
        interrupt(process, notes_folder)
        return (0 if isinstance(error, subprocess.TimeoutExpired) else ending.STATUS), True
    return (128 - process.returncode if process.returncode < 0 else process.returncode), False


def interrupt(process: subprocess.Popen, notes_folder: Path) -> None:
    """Interrupt a process and its children, as Ctrl-C does, and kill those that do not end."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        family = [root, *root.children(recursive=True)]
        for member in family:
            listens = ending.SIGNAL is not None and (notes_folder / f"{member.pid}.begun").exists()
            with suppress(psutil.NoSuchProcess):
                member.send_signal(ending.SIGNAL if listens else signal.SIGINT)
        alive = psutil.wait_procs(family, timeout=PATIENCE)[1]
        for member in alive:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(alive, timeout=PATIENCE)  # a killed process exists for a moment longer
    with suppress(subprocess.TimeoutExpired):  # give up on a process that is stuck in the kernel
        process.wait(PATIENCE)
