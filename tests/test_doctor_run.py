"""rlrepro doctor --run: a command is watched, whatever it does."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from rlrepro.doctor.live.command import run
from rlrepro.doctor.live.sampler import ThreadSampler
from rlrepro.doctor.live.threads import children

SMALL = """\
import torch
network = torch.nn.Linear(3, 3)
with torch.no_grad():
    network(torch.ones(1000, 3))
for rows in torch.ones(1000, 3).split(50):
    network(rows).sum().backward()
print("trained")
"""
MANY = """\
import multiprocessing
import torch

def work(rows):
    torch.nn.Linear(3, 3)(torch.ones(rows, 3))

if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        pool.map(work, [10, 20, 30])
"""


def doctor(run_cli, *words, **options):
    return run_cli("doctor", "--run", *words, **options)


def test_a_finding_of_a_run(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(SMALL)
    done = doctor(run_cli, "--", sys.executable, "train.py")
    assert done.returncode == 1 and "trained" in done.stdout
    assert "train.py:4:1: RUN002 1,000 rows at once in train.py:4 (<module>)" in done.stdout
    assert "rlrepro doctor --explain RUN002" in done.stdout
    assert run_cli("doctor", "--explain", "RUN002").returncode == 0


def test_for_programs_its_own_output_stands_aside(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(SMALL)
    done = doctor(run_cli, "--format", "json", "--", sys.executable, "train.py")
    (finding,) = json.loads(done.stdout)
    assert finding["code"] == "RUN002" and finding["line"] == 4 and "trained" in done.stderr
    quiet = doctor(run_cli, "--format", "json", "--ignore", "RUN002", "--", sys.executable, "train.py")
    assert json.loads(quiet.stdout) == [] and quiet.returncode == 0
    assert doctor(run_cli, "--select", "RUN9", "--", sys.executable, "train.py").returncode == 2


def test_it_ends_as_the_command_does(tmp_path, run_cli):
    assert doctor(run_cli, "--", sys.executable, "-c", "raise SystemExit(7)").returncode == 7
    assert doctor(run_cli, "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)").returncode == 137
    missing = doctor(run_cli, "--", "no such command")
    assert missing.returncode == 2 and "no such command" in missing.stderr
    assert doctor(run_cli).returncode == 2
    assert run_cli("doctor", "--seconds", "3").returncode == 2


def test_a_training_that_fails_is_still_reported(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(SMALL + "raise MemoryError\n")
    done = doctor(run_cli, "--", sys.executable, "train.py")
    assert done.returncode == 1 and "MemoryError" in done.stderr and "RUN002" in done.stdout


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_are_watched(tmp_path, method):
    (tmp_path / "train.py").write_text(MANY.format(method=method))
    report, status = run([sys.executable, "train.py"], folder=tmp_path)
    assert status == 0 and report.notes.passes["with gradients"].rows == 30
    assert report.crowd.looks > 3


def test_what_was_noted_before_a_kill_is_there(tmp_path):
    script = """import os, torch
from stable_baselines3 import DQN
class Killed(DQN):
    def train(self, *args, **kwargs):
        super().train(*args, **kwargs)
        if self.num_timesteps > 4000:
            os.kill(os.getpid(), 9)
Killed("MlpPolicy", "CartPole-v1", learning_starts=50, device="cpu").learn(9000)
"""
    (tmp_path / "train.py").write_text(script)
    report, status = run([sys.executable, "train.py"], folder=tmp_path)
    assert status == 137 and report.notes.stages["train"].calls > 10


def test_it_can_be_ended_early(tmp_path):
    start = time.monotonic()
    report, status = run([sys.executable, "-c", "import time; time.sleep(60)"], seconds=1)
    assert status == 0 and time.monotonic() - start < 30 and report.crowd.looks > 3


def test_a_python_without_rlrepro_is_named(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    report, status = run([str(tmp_path / "bare/bin/python"), "-c", "print(1)"])
    assert status == 0 and "No module named 'rlrepro'" in "".join(report.unwatched) and "not watched" in str(report)


def test_a_python_that_reads_no_variables_is_told_of():
    report, status = run([sys.executable, "-I", "-c", "print(1)"])
    assert status == 0 and "python -I" in "".join(report.unwatched)


def test_children_end_with_the_command_that_is_ended(monkeypatch):
    monkeypatch.setattr("rlrepro.doctor.live.command.PATIENCE", 1.0)  # bash lets what it runs beside ignore Ctrl-C
    script = "python_is_here & wait".replace("python_is_here", f"{sys.executable} -c 'import time; time.sleep(61)'")
    _, status = run(["bash", "-c", script], seconds=2)
    left = [
        each for each in psutil.process_iter(["cmdline"]) if "time.sleep(61)" in " ".join(each.info["cmdline"] or [])
    ]
    assert status == 0 and not left


def test_own_loops_that_are_killed_have_left_notes(tmp_path):
    (tmp_path / "train.py").write_text(SMALL + "import os\nos.kill(os.getpid(), 9)\n")
    report, status = run([sys.executable, "train.py"], folder=tmp_path)
    assert status == 137 and [each.code for each in report.findings] == ["RUN002"]


def test_somebody_elses_sitecustomize_still_runs(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['MARK'] = 'theirs'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    _, status = run([sys.executable, "-c", "import os, sitecustomize; assert os.environ['MARK'] == 'theirs'"])
    assert status == 0
    monkeypatch.delenv("PYTHONPATH")
    _, status = run([sys.executable, "-c", "import sys; assert 'startup' not in ''.join(sys.path)"])
    assert status == 0


linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


@linux
def test_seconds_of_threads():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)\nwhile True: pass"])
    try:
        sampler = ThreadSampler(child.pid)
        for _ in range(10):
            time.sleep(0.1)
            sampler.sample()
        crowd = sampler.crowd
        assert 0.1 < crowd.ran_seconds + crowd.waited_seconds < 1.5
        assert crowd.processes == 1 and crowd.crowded_looks == 0
    finally:
        child.kill()
        child.wait()


ENDED_AT_RANDOM = """\
import multiprocessing, os, random, signal, sys, time
import torch

def work(seed):
    matrix, end = torch.randn(256, 256), time.time() + 0.2 * random.random()
    while time.time() < end:
        matrix @ matrix

if __name__ == "__main__":
    pool = multiprocessing.get_context("fork").Pool(4)
    pool.map_async(work, range(100))
    time.sleep(0.3 * random.random())
    for worker in random.sample(pool._pool, 2):
        os.kill(worker.pid, signal.SIGTERM)
    time.sleep(0.2 * random.random())
    pool.terminate()
    pool.join()
    sys.exit(3)
"""


@linux
def test_workers_that_end_at_random(tmp_path):
    """They end as without a watch, and leave nothing in the table of processes."""
    (tmp_path / "train.py").write_text(ENDED_AT_RANDOM)
    before = set(children(os.getpid()))
    for _ in range(5):
        _, status = run([sys.executable, "train.py"], folder=tmp_path, seconds=60)
        assert status == 3
    assert set(children(os.getpid())) == before
    assert not [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(tmp_path)]
