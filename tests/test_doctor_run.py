"""rlrepro doctor --run watches a command, whatever it does."""

import json
import subprocess
import sys

import pytest

from rlrepro.doctor.live.command import run

pytestmark = pytest.mark.usefixtures("one_thread")

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


def doctor(run_cli, *arguments, **options):
    return run_cli("doctor", "--run", *arguments, **options)


@pytest.mark.slow
def test_a_finding_of_a_run(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(SMALL)
    result = doctor(run_cli, "--", sys.executable, "train.py")
    assert result.returncode == 1 and "trained" in result.stdout
    assert "train.py:4:1: RUN002 a network got 1,000 samples at once in train.py:4 (<module>)" in result.stdout
    assert "rlrepro doctor --explain RUN002" in result.stdout
    assert run_cli("doctor", "--explain", "RUN002").returncode == 0


@pytest.mark.slow
def test_in_json_format_the_commands_own_output_goes_to_stderr(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(SMALL)
    result = doctor(run_cli, "--format", "json", "--", sys.executable, "train.py")
    output = json.loads(result.stdout)
    (finding,), run = output["findings"], output["run"]
    assert run["measured"] and run["passes"]["without gradients"]["rows"] == 1000 and run["split"]["learning"] > 0
    assert finding["code"] == "RUN002" and finding["line"] == 4 and "trained" in result.stderr
    quiet = doctor(run_cli, "--format", "json", "--ignore", "RUN002", "--", sys.executable, "train.py")
    assert json.loads(quiet.stdout)["findings"] == [] and quiet.returncode == 0
    assert doctor(run_cli, "--select", "RUN9", "--", sys.executable, "train.py").returncode == 2


@pytest.mark.slow
def test_a_run_without_training_is_not_called_free_of_findings(run_cli):
    result = doctor(run_cli, "--seconds", "1", "--", sys.executable, "-c", "import time; time.sleep(30)")
    assert (
        result.returncode == 0 and "no training was seen so far" in result.stdout and "no findings" not in result.stdout
    )


@pytest.mark.slow
def test_it_exits_with_the_status_of_the_command(tmp_path, run_cli):
    assert doctor(run_cli, "--", sys.executable, "-c", "raise SystemExit(7)").returncode == 7
    assert doctor(run_cli, "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)").returncode == 137
    missing = doctor(run_cli, "--", "no such command")
    assert missing.returncode == 2 and "no such command" in missing.stderr
    assert doctor(run_cli).returncode == 2
    assert run_cli("doctor", "--seconds", "3").returncode == 2


@pytest.mark.slow
def test_a_training_that_fails_is_still_reported(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(SMALL + "raise MemoryError\n")
    result = doctor(run_cli, "--", sys.executable, "train.py")
    assert result.returncode == 1 and "MemoryError" in result.stderr and "RUN002" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_are_watched(tmp_path, method):
    (tmp_path / "train.py").write_text(MANY.format(method=method))
    report, status = run([sys.executable, "train.py"], folder=tmp_path)
    assert status == 0 and report.notes.passes["with gradients"].rows == 30
    assert report.crowd.samples > 3


@pytest.mark.slow
def test_notes_from_before_a_kill_are_kept(tmp_path):
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


@pytest.mark.slow
def test_the_first_stages_are_kept_however_soon_after_them_a_process_is_killed(tmp_path):
    script = """import os
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
class Kill(BaseCallback):
    def _on_rollout_start(self):
        if self.num_timesteps >= 32:
            os.kill(os.getpid(), 9)
    def _on_step(self):
        return True
PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1, device="cpu").learn(100, Kill())
"""
    (tmp_path / "train.py").write_text(script)
    report, status = run([sys.executable, "train.py"], folder=tmp_path)
    stages = report.notes.stages
    assert status == 137 and stages["collect"].calls == stages["train"].calls == 2 and stages["train"].seconds > 0


@pytest.mark.slow
def test_truncated_notes_are_reported_and_the_others_used(tmp_path):
    script = """import glob, os, torch
torch.nn.Linear(3, 3)(torch.ones(7, 3))
open(os.environ["RLREPRO_DOCTOR_NOTES"] + "/99.json", "w").write('{"pid": 9')
"""
    report, status = run([sys.executable, "-c", script], folder=tmp_path)
    assert status == 0 and report.notes.passes["with gradients"].rows == 7
    assert "notes of process 99 can't be read" in str(report)


@pytest.mark.slow
def test_codes_are_chosen_in_the_working_folder(tmp_path, run_cli):
    """One configuration for files and runs."""
    (tmp_path / "train.py").write_text(SMALL)
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignore = ["RUN002", "PT001"]\n')
    result = doctor(run_cli, "--", sys.executable, "train.py")
    assert result.returncode == 0 and "no findings" in result.stdout
    assert run_cli("doctor", ".").returncode != 2
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nselect = ["TS"]\n')
    result = doctor(run_cli, "--", sys.executable, "train.py")
    assert result.returncode == 2 and "starts with RUN" in result.stderr
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignore = ["RAN"]\n')
    assert doctor(run_cli, "--", sys.executable, "train.py").returncode == 2


MADE = """import numpy as np
from gymnasium.spaces import Box
from {library} import ReplayBuffer


def make():
    return ReplayBuffer(1000, Box(-1, 1, (4,)), Box(0, 1, (400,)), device="cpu")
"""
FILLED = """import numpy as np
from made import make

buffer, row = make(), np.zeros((1, 4), np.float32)
for step in range(100):
    buffer.add(row, row, np.eye(400, dtype=np.float32)[[step]], np.zeros(1), np.zeros(1), [{}])
    if step > 20:
        buffer.sample(8)
"""


@pytest.mark.slow
def test_a_buffer_that_a_function_of_another_module_makes(tmp_path):
    """The finding names the line that has to change."""
    (tmp_path / "made.py").write_text(MADE.format(library="stable_baselines3.common.buffers"))
    (tmp_path / "train.py").write_text(FILLED)
    report, _ = run([sys.executable, "train.py"], folder=tmp_path)
    [finding] = report.findings
    assert (finding.code, finding.path, finding.line) == ("RUN007", "made.py", 7) and "one-hot" in finding.message


def test_a_python_without_rlrepro_is_named(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    report, status = run([str(tmp_path / "bare/bin/python"), "-c", "print(1)"])
    assert status == 0 and "No module named 'rlrepro'" in "".join(report.unwatched) and "not watched" in str(report)


def test_a_python_that_ignores_the_environment_is_reported():
    report, status = run([sys.executable, "-I", "-c", "print(1)"])
    assert status == 0 and "python -I" in "".join(report.unwatched)


@pytest.mark.slow
def test_a_killed_loop_by_hand_has_left_notes(tmp_path):
    (tmp_path / "train.py").write_text(SMALL + "import os\nos.kill(os.getpid(), 9)\n")
    report, status = run([sys.executable, "train.py"], folder=tmp_path)
    assert status == 137 and [finding.code for finding in report.findings] == ["RUN002"]


def test_another_sitecustomize_still_runs(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['MARK'] = 'theirs'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    _, status = run([sys.executable, "-c", "import os, sitecustomize; assert os.environ['MARK'] == 'theirs'"])
    assert status == 0
    monkeypatch.delenv("PYTHONPATH")
    _, status = run([sys.executable, "-c", "import sys; assert 'startup' not in ''.join(sys.path)"])
    assert status == 0


def test_a_path_that_the_caller_gives_is_kept(tmp_path):
    (tmp_path / "theirs.py").touch()
    _, status = run([sys.executable, "-c", "import theirs"], environment={"PYTHONPATH": str(tmp_path)})
    assert status == 0
