"""Odd but valid programs; no rule may fail on them or take long."""

import time
from pathlib import Path

import pytest

from rlrepro.doctor.scan import examine

DATA = """
class Data{0}:
    def get_data(self):
        if self.x:
            return self.x.get_data()
        return self.y.get_data()
"""
ODD = {
    "a call and a setting in one line": """
class Trainer:
    def __init__(self, detect_anomaly):
        torch.ones(1).backward()
torch.autograd.set_detect_anomaly(True); trainer = Trainer(detect_anomaly=True); trainer.train()
""",
    "copy as a function": """
from copy import copy
def collect(obs):
    states = []
    states.append(copy(obs))
    return torch.tensor(states)
""",
    "a map without positional arguments": """
def collect(pool, envs):
    states = []
    states.append(pool.map(func=step, iterable=envs))
    return torch.tensor(states)
""",
    "a data set that is a part of itself": """
from torch.utils.data import DataLoader, Subset
data = Subset(data, rows)
loader = DataLoader(data, shuffle=True)
""",
    "a module with a name that no file can have": f"""
from {"a" * 300} import sample
def collect(obs):
    states = []
    states.append(obs)
    return torch.tensor(states)
""",
    "many data sets that return each other": f"""
from torch.utils.data import DataLoader
{"".join(map(DATA.format, range(24)))}
loader = DataLoader(data.get_data(), shuffle=True)
""",
}


@pytest.mark.parametrize("title", ODD)
def test_no_rule_fails(tmp_path, title):
    (tmp_path / "train.py").write_text(f"import torch\n{ODD[title]}")
    start = time.process_time()
    report = examine([tmp_path])
    assert time.process_time() - start < 2
    assert not report.left_out


def test_a_folder_has_the_same_findings_from_inside(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(
        "from . import utils\nimport torch\ntorch.autograd.set_detect_anomaly(True)\ntrain()"
    )
    (tmp_path / "utils.py").write_text("")
    monkeypatch.chdir(tmp_path)
    inside, outside = examine([Path()]), examine([tmp_path])
    assert not inside.left_out and [finding.code for finding in inside.findings] == ["TO002"]
    assert [finding.confidence for finding in inside.findings] == [finding.confidence for finding in outside.findings]
