"""with watch(): a training in this process."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from rlrepro.doctor.live import spinning
from rlrepro.doctor.live.crowd import Crowd
from rlrepro.doctor.live.libraries import install
from rlrepro.doctor.live.notes import Notes
from rlrepro.doctor.live.patches import Patches
from rlrepro.doctor.live.report import Report
from rlrepro.doctor.live.startup import FOLDER

PATIENCE = 5.0  # seconds for the observer to write its last

_running = []


@contextmanager
def watch(*, show: bool = True):
    """Watch what runs in this block, in this process and of its children the threads, and say what is wrong.

    Gives a Report, which is filled when the block ends, however it ends: `findings`, a list of Finding, and `str` of
    it, which is printed unless `show` is False. What raises passes through.

    Functions of torch, tianshou, Stable-Baselines3, TorchRL and Pearl are replaced meanwhile, and put back. On a GPU
    torch.cuda.max_memory_allocated begins anew with each stage of the training. Raises RuntimeError within another
    watch.
    """
    if _running:
        raise RuntimeError("watch can't be used within another one: end that first")
    report, notes, patches = Report(sys.argv[0]), Notes(), Patches()
    _running.append(report)
    try:
        with _observed() as crowd:
            install(patches, notes)
            try:
                yield report
            finally:
                patches.undo()
                report.notes = notes.close()
        report.crowd = crowd
    finally:
        _running.clear()
        report.close()
        if show:
            print(report)


@contextmanager
def _observed():
    """An observer of this process in a process of its own; what it saw is there afterwards."""
    crowd = Crowd(cores=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crowd.json"
        command = [sys.executable, "-m", "rlrepro.doctor.live.observer", str(os.getpid()), str(path)]
        paths = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
        environment = {name: value for name, value in os.environ.items() if name != FOLDER} | {"PYTHONPATH": paths}
        observer = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        spinning.allow(observer.pid)
        try:
            yield crowd
        finally:
            spinning.allow(0)
            observer.stdin.close()
            try:
                observer.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                observer.kill()
                observer.wait()
            if path.exists():
                vars(crowd).update(json.loads(path.read_text()))
