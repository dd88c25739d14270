"""Processes that run at the same time: if a launcher waits for one before it starts the next, they don't."""

import pytest

from rlrepro.doctor.scan import examine

LAUNCH = """
import subprocess, sys
processes = []
for seed in range(3):
{}
"""
START = "    process = subprocess.Popen([sys.executable, 'train.py'])\n"
TRAIN = """
import torch
network = torch.nn.Linear(3, 3)
optimizer = torch.optim.Adam(network.parameters())
for _ in range(1000):
    network(torch.ones(64, 3)).sum().backward()
    optimizer.step()
"""


WORKERS = """
import multiprocessing
import train

def work():
    train.run()

for seed in range(3):
    process = multiprocessing.Process(target=work)
    process.start()
{}
"""


@pytest.mark.parametrize(
    "body",
    [
        START + "    if process.wait():\n        print(seed)",
        START + "    output, _ = process.communicate()",
        START + "    try:\n        process.wait()\n    except KeyboardInterrupt:\n        process.kill()",
        "    subprocess.Popen([sys.executable, 'train.py']).wait()",
        "    if (process := subprocess.Popen([sys.executable, 'train.py'])).wait():\n        break",
        "    with subprocess.Popen([sys.executable, 'train.py'], stdout=-1) as process:\n        print(process.stdout)",
        START.rstrip() + "; process.wait()",
    ],
)
def test_training_runs_in_turn(tmp_path, body):
    assert "PT001" not in codes(tmp_path, body)


@pytest.mark.parametrize(
    "body",
    [
        START + "    processes.append(process)",
        START + "process.wait()",  # for the last one only
        START + "    processes.append(process)\nfor process in processes:\n    process.wait()",
        START + "    if seed % 2:\n        process.wait()",
        START + "    try:\n        print(seed)\n    except KeyboardInterrupt:\n        process.wait()",
        START + "    try:\n        process.wait(timeout=2)\n    except subprocess.TimeoutExpired:\n        pass",
        START + "    other = subprocess.Popen([sys.executable, 'train.py'])\n    process.wait()",
        START + START + "    process.wait()",
    ],
)
def test_training_runs_that_overlap(tmp_path, body):
    assert "PT001" in codes(tmp_path, body)


@pytest.mark.parametrize("after_start, expected", [("    process.join()", False), ("    print(seed)", True)])
def test_processes_that_are_joined_in_turn(tmp_path, after_start, expected):
    (tmp_path / "train.py").write_text(TRAIN.replace("for _", "def run():\n  for _"))
    (tmp_path / "launch.py").write_text(WORKERS.format(after_start))
    assert ("PT001" in {finding.code for finding in examine([tmp_path]).findings}) is expected


def codes(folder, body):
    (folder / "train.py").write_text(TRAIN)
    (folder / "launch.py").write_text(LAUNCH.format(body))
    return {finding.code for finding in examine([folder]).findings}
