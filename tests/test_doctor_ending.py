"""Ending a watched run: quietly, as by Ctrl-C, with its current stage in the notes."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from rlrepro.doctor.live.command import interrupt, run, watching
from rlrepro.doctor.live.ending import SIGNAL
from rlrepro.doctor.live.notes import Notes
from rlrepro.doctor.live.report import Report

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(SIGNAL is None, reason="without real-time signals, a run is ended by SIGINT"),
]

LONG = """\
import multiprocessing, os, sys, time
import torch
from stable_baselines3 import PPO

class Slow(PPO):
    def train(self):
        super().train()
        open(f"{{os.getpid()}}.trains", "w").close()
        time.sleep(1000)

def work(seed):
    Slow("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, device="cpu").learn(10**6)

if __name__ == "__main__":
    {body}
"""
POOL = """with multiprocessing.get_context({method!r}).Pool(2) as pool:
        pool.map(work, range(2))"""


SECONDS = 120  # for a busy machine to import everything


@pytest.mark.slow
@pytest.mark.parametrize(
    "body, processes", [("work(0)", 1), *((POOL.format(method=method), 2) for method in ("fork", "spawn"))]
)
def test_a_stage_that_is_cut_short(tmp_path, body, processes):
    """It is noted, without a traceback, even when a parent ends its children."""
    (tmp_path / "train.py").write_text(LONG.format(body=body))
    (notes := tmp_path / "notes").mkdir()
    command = [sys.executable, "-W", "ignore", "train.py"]
    with (tmp_path / "output").open("w") as stderr:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=os.environ | watching(notes, os.environ.get("PYTHONPATH")), stderr=stderr
        )
        limit = time.monotonic() + SECONDS
        while len(list(tmp_path.glob("*.trains"))) < processes and time.monotonic() < limit:
            time.sleep(0.05)
        interrupt(process, notes)
    report = Report("train.py", tmp_path)
    for path in notes.glob("*.json"):
        report.notes.add(Notes.read(path))
    assert (tmp_path / "output").read_text() == ""
    assert "train was still running when the run ended" in str(report)


@pytest.mark.slow
def test_an_early_end_is_not_a_failure_and_prints_nothing(run_cli):
    script = "import time, torch; torch.nn.Linear(3, 3)(torch.ones(7, 3)); time.sleep(60)"
    completed = run_cli("doctor", "--run", "--seconds", "10", "--", sys.executable, "-c", script, timeout=SECONDS)
    assert completed.returncode == 0 and completed.stderr == "" and "7 samples" in completed.stdout


@pytest.mark.slow
def test_a_program_that_catches_ctrl_c_catches_the_end_of_a_run_too(tmp_path):
    script = """import sys, time
try:
    time.sleep(60)
except KeyboardInterrupt:
    open("saved", "w").close()
"""
    _, status = run([sys.executable, "-c", script], folder=tmp_path, seconds=3)
    assert status == 0 and (tmp_path / "saved").exists()


@pytest.mark.slow
def test_a_program_with_its_own_handler_for_ctrl_c_is_ended_by_that(tmp_path):
    script = """import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (open("stopped", "w").close(), sys.exit(0)))
time.sleep(60)
"""
    run([sys.executable, "-c", script], folder=tmp_path, seconds=3)
    assert (tmp_path / "stopped").exists()


def test_the_watch_leaves_ctrl_c_unchanged(tmp_path):
    """The watch doesn't change it: Python's own handler, traceback and exit status remain."""
    script = """import os, signal
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
os.kill(os.getpid(), signal.SIGINT)
"""
    with open(tmp_path / "output", "w") as output:  # noqa: PTH123
        command = ["bash", "-c", '"$0" -c "$1" 2>&1', sys.executable, script]
        _, status = run(command, folder=tmp_path, stdout=output)
    assert status == 130 and "KeyboardInterrupt" in (tmp_path / "output").read_text()


def test_it_can_be_ended_early(tmp_path):
    script = "import pathlib, time; time.sleep(60); pathlib.Path('slept').touch()"
    report, status = run([sys.executable, "-c", script], folder=tmp_path, seconds=1)
    assert status == 0 and not (tmp_path / "slept").exists() and report.crowd.samples > 3


@pytest.mark.slow
def test_children_end_with_the_command_that_is_ended(monkeypatch):
    monkeypatch.setattr("rlrepro.doctor.live.command.PATIENCE", 1.0)  # bash's background processes ignore Ctrl-C
    script = "python_is_here & wait".replace("python_is_here", f"{sys.executable} -c 'import time; time.sleep(61)'")
    _, status = run(["bash", "-c", script], seconds=2)
    survivors = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "time.sleep(61)" in " ".join(process.info["cmdline"] or [])
    ]
    assert status == 0 and not survivors
