"""A script that is planned changes no file, whatever it writes, saves, moves or deletes."""

import os
import random
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from rlrepro.fit import CannotPlan, plan_update
from rlrepro.fit.script_file import plan_file

SETUP = """
import json, os, pickle, shutil, tempfile
from pathlib import Path
import torch
from torch import nn
os.chdir({folder!r})
net = nn.Linear(8, 256).to("cuda")
optimizer = torch.optim.Adam(net.parameters())
"""
CHANGES = {
    "a checkpoint": 'torch.save({"net": net.state_dict()}, "kept.txt")',
    "a pickle": 'with open("kept.txt", "wb") as file: pickle.dump(net, file)',
    "a log": 'log = open("kept.txt", "w"); log.write("new"); log.flush()',
    "an appended log": """with Path("kept.txt").open("a") as log: log.write("more")
assert Path("kept.txt").read_text() == "keptmore" """,
    "a moved file": """Path("new.json").write_text("[1]"); os.replace("new.json", "kept.txt")
assert json.load(open("kept.txt")) == [1]""",
    "a copied file": 'shutil.copy("kept/inner.txt", "kept.txt")',
    "an existing file that is moved": 'os.rename("kept.txt", "moved.txt")',
    "a deleted file": 'os.remove("kept.txt")',
    "a deleted folder": 'shutil.rmtree("kept")',
    "a new folder": 'os.makedirs("runs/first"); Path("runs/first/config.json").write_text("{}")',
    "temporary files": """with tempfile.NamedTemporaryFile("w") as file: file.write("x")
with tempfile.TemporaryDirectory() as folder: Path(folder, "x").write_text("x")
assert not Path(file.name).exists() and not Path(folder).exists()""",
}
TRAINS = """
while True:
    loss = net(torch.rand(64, 8, device="cuda")).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "inner.txt").write_text("inner")
    (tmp_path / "kept.txt").write_text("kept")
    return tmp_path


def content(folder):
    return {path.relative_to(folder): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_files_stay_as_they_are(folder, change):
    (folder / "train.py").write_text(SETUP.format(folder=str(folder)) + change + TRAINS)
    before = content(folder)
    assert plan_file(folder / "train.py", None, (), {}, 8).fits()
    assert content(folder) == before


def test_files_stay_as_they_are_if_the_script_fails(folder):
    changes = "\n".join((CHANGES["a log"], CHANGES["a new folder"], CHANGES["a deleted folder"]))
    (folder / "train.py").write_text(SETUP.format(folder=str(folder)) + changes + "\n1 / 0")
    before = content(folder)
    with pytest.raises(CannotPlan, match="ZeroDivisionError"):
        plan_file(folder / "train.py", None, (), {}, 8)
    assert content(folder) == before


def test_the_usual_errors_are_raised(folder):
    for wrong in ('open("missing/file", "w")', 'open("kept.txt", "x")', 'open("none.txt", "r+")', 'os.remove("none")'):
        (folder / "train.py").write_text(SETUP.format(folder=str(folder)) + wrong + TRAINS)
        with pytest.raises(CannotPlan, match=r"FileNotFoundError|FileExistsError"):
            plan_file(folder / "train.py", None, (), {}, 8)


SETTINGS = """
import random, signal
os.chdir("/"); os.environ["RLREPRO_TEST"] = "1"; random.seed(1); signal.signal(signal.SIGTERM, lambda *_: None)
torch.set_default_dtype(torch.float64); torch.set_float32_matmul_precision("high")
torch.use_deterministic_algorithms(True, warn_only=True)
"""


def settings():
    of_torch = torch.get_default_dtype(), torch.get_float32_matmul_precision(), torch.get_deterministic_debug_mode()
    return Path.cwd(), os.environ.get("RLREPRO_TEST"), random.getstate(), signal.getsignal(signal.SIGTERM), of_torch


def test_the_process_stays_as_it_is(folder):
    script = SETUP.format(folder=str(folder)) + SETTINGS + TRAINS.replace("(64, 8,", "(64, 8, dtype=torch.float32,")
    Path("train.py").write_text(script)
    before = settings()
    plan = plan_file(Path("train.py"), None, (), {}, 8)
    assert settings() == before
    assert plan.at().stages == plan.stages  # the script is found again


MAPPED = """
from tensordict import TensorDict
from torchrl.data import LazyMemmapStorage, ReplayBuffer
device = "cuda" if torch.cuda.is_available() else "cpu"
buffer = ReplayBuffer(storage=LazyMemmapStorage(10**9, scratch_dir="kept/buffer"), batch_size=64)  # 35 TB
while True:
    buffer.extend(TensorDict({"obs": torch.rand(2, 8, 1024)}, [2]))
    loss = net(buffer.sample().to(device)["obs"].mean(2, keepdim=True).expand(64, 8, 8)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.mark.slow
def test_a_memory_mapped_buffer_is_planned_without_its_files(folder, run_cli):
    (folder / "train.py").write_text(SETUP.format(folder=str(folder)) + MAPPED)
    before = content(folder)
    completed = run_cli("fit", folder / "train.py", "--gib", "1", timeout=120)  # where tensordict is not imported yet
    assert completed.returncode == 0, completed.stderr
    assert "memory-mapped tensors are left out" in completed.stdout
    assert content(folder) == before


def test_a_memory_mapped_tensor_is_a_tensor_again_after_a_plan(tmp_path):
    from tensordict import MemoryMappedTensor

    def step(net):
        MemoryMappedTensor.zeros((10**6, 10**6), filename=str(tmp_path / "rows"))[0] + 1
        net(torch.rand(8, 8, device="cuda"))

    plan = plan_update(lambda: nn.Linear(8, 8).to("cuda"), step)
    assert plan.host_bytes < 2 * 4 * 10**6 + 10**4  # the row that was read, and the result
    assert not any(tmp_path.iterdir()) and type(MemoryMappedTensor.zeros((2, 2))) is MemoryMappedTensor
