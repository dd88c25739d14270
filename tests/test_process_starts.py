"""Which processes run at the same time: those that a launcher waits for one by one do not."""

import pytest

from rlrepro.doctor.scan import examine

LAUNCH = """
import subprocess, sys
processes = []
for seed in range(3):
    process = subprocess.Popen([sys.executable, "train.py", str(seed)])
{}
"""
TRAIN = """
import torch
network = torch.nn.Linear(3, 3)
optimizer = torch.optim.Adam(network.parameters())
for _ in range(1000):
    network(torch.ones(64, 3)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "then, found",
    [
        ("    if process.wait():\n        print(seed)", False),
        ("    output, _ = process.communicate()", False),
        ("    processes.append(process)", True),
        ("process.wait()", True),  # for the last one only
        ("    processes.append(process)\nfor process in processes:\n    process.wait()", True),
    ],
)
def test_training_runs_that_a_launcher_starts(tmp_path, then, found):
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "launch.py").write_text(LAUNCH.format(then))
    assert ("PT001" in {finding.code for finding in examine([tmp_path]).findings}) is found
