"""rlrepro doctor --run: a command is watched, whatever it does."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from rlrepro.doctor.live.command import run
from rlrepro.doctor.live.observer import Observer
from rlrepro.doctor.live.spinning import spins
from rlrepro.doctor.live.threads import threads

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


linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc and ptrace are Linux's")


@linux
def test_who_spins():
    """In both processes all cores are busy: in one a single thread computes while the others wait for it, in the other
    each thread has work."""
    if not spins_can_be_seen():
        pytest.skip("this system does not let a process be looked into")
    waits = "import torch\na = torch.ones(2**20)\nwhile True: a.add_(1); sum(range(2000))"
    alone = "import torch\ntorch.set_num_threads(1)\na = torch.ones(64, 64)\nwhile True: a @ a"
    environment = {"OMP_WAIT_POLICY": "ACTIVE"}
    assert share_of_spinning(waits, environment) > 0.15
    assert share_of_spinning(alone, environment) == 0


def spins_can_be_seen():
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.5)
        return spins(child.pid, child.pid) is not None
    finally:
        child.kill()
        child.wait()


def share_of_spinning(script, environment):
    child = subprocess.Popen([sys.executable, "-c", script], env=os.environ | environment)
    try:
        time.sleep(4)
        found = []
        for _ in range(60):
            time.sleep(0.02)
            found += [spins(each.pid, each.tid) for each in threads([psutil.Process(child.pid)]) if each.runnable]
        assert child.poll() is None  # it survives being looked at
        return sum(map(bool, found)) / len(found)
    finally:
        child.kill()
        child.wait()


@linux
def test_seconds_of_threads():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)\nwhile True: pass"])
    try:
        observer = Observer(child.pid)
        for _ in range(10):
            time.sleep(0.1)
            observer.look()
        assert 0.1 < observer.crowd.ran_seconds + observer.crowd.waited_seconds < 1.5
        assert observer.crowd.processes == 1 and observer.crowd.crowded_looks == 0
    finally:
        child.kill()
        child.wait()
