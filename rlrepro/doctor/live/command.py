"""rlrepro doctor --run: a command that trains, watched from its start to its end."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from rlrepro.doctor.live.notes import FOLDER, Notes
from rlrepro.doctor.live.report import Report
from rlrepro.doctor.live.sampler import sampled

STARTUP = Path(__file__).parent / "startup"
PATIENCE = 10.0  # seconds that an interrupted command has to end


def run(
    command: Sequence[str], *, folder: str | Path = ".", seconds: float | None = None, stdout=None
) -> tuple[Report, int]:
    """Run a command in a folder and watch every Python process of it that has rlrepro installed: (what was seen, exit
    status).

    After `seconds`, if given, it is interrupted as by Ctrl-C, and ended where it has not gone 10 seconds later. Its
    output goes where this process's does, or to `stdout`. Raises OSError where it can't be started.
    """
    script = next((word for word in command if word.endswith(".py")), command[0])
    report = Report(script, Path(folder).resolve())
    with tempfile.TemporaryDirectory() as kept:
        paths = [str(STARTUP), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), FOLDER: kept}
        with sampled(itself=False) as report.crowd:
            status = _wait(subprocess.Popen(command, env=environment, cwd=folder, stdout=stdout), seconds)
        for path in sorted(Path(kept).glob("*.json")):
            report.notes.add(Notes.read(path))
        report.unwatched = [f"not watched: {path.read_text()}" for path in sorted(Path(kept).glob("*.failed"))]
        if not report.unwatched and not any(Path(kept).glob("*.begun")):
            report.unwatched = ["not watched: no Python process here read PYTHONPATH (python -I, -E and -S do not)"]
    report.close()
    return report, status


def _wait(process: subprocess.Popen, seconds: float | None) -> int:
    """The exit status, as a shell gives it. Ctrl-C reaches the command too: it decides what that means."""
    try:
        process.wait(seconds)
    except KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            process.wait()
    except subprocess.TimeoutExpired:
        _interrupt(process)
        return 0
    return 128 - process.returncode if process.returncode < 0 else process.returncode


def _interrupt(process: subprocess.Popen) -> None:
    """As Ctrl-C does, which reaches the children as well; who does not go is ended."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        family = [root, *root.children(recursive=True)]
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGINT)
        for each in psutil.wait_procs(family, timeout=PATIENCE)[1]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()
