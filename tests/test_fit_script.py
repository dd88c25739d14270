"""`rlrepro fit train.py` finds the update of a file, and names what the file lacks."""

import json

import pytest

from rlrepro.fit.command import describe_plan
from rlrepro.fit.memory_plan import CannotPlan
from rlrepro.fit.script_file import plan_file

SETUP = """
import argparse, torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter
from rlrepro.fit import plannable
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def build():
    net = nn.Linear(64, 64).to(device)
    return net, torch.optim.Adam(net.parameters())
def learn(state, batch_size=256):
    net, optimizer = state
    optimizer.zero_grad()
    net(torch.zeros(batch_size, 64, device=device)).mean().backward()
    optimizer.step()
"""
MARKED = SETUP.replace("def learn", "@plannable(build, batch_size=512)\ndef learn")
NAMED = SETUP.replace("def learn", "def step").replace("def build", "def make")
TRAINS = """
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    batch_size, state, writer = parser.parse_args().batch_size, build(), SummaryWriter("runs/x")
    for update in range(1000):
        learn(state, batch_size)
        writer.add_scalar("loss", 0, update)
"""
MAIN = SETUP + 'if __name__ == "__main__":' + TRAINS
FLAT = SETUP + "if True:" + TRAINS
DECORATED = (
    SETUP + "@plannable()\ndef main(batch_size=512):\n    state = build()\n    while True: learn(state, batch_size)\n"
)


def planned(tmp_path, text, name=None, arguments=(), **sizes):
    file = tmp_path / "train.py"
    file.write_text(text)
    return plan_file(file, name, arguments, sizes, 8)


@pytest.mark.parametrize("text", [MARKED, DECORATED, MAIN, FLAT], ids=["marked", "marked training", "script", "flat"])
def test_the_update_of_a_file_is_found_and_planned_on_a_card(tmp_path, text):
    by_name = planned(tmp_path, NAMED, batch_size=512)
    from_file = planned(tmp_path, text)
    assert from_file.stages["update"] == by_name.stages["update"] > 512 * 64 * 4 and from_file.fits()
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_sizes_reach_a_script_as_options(tmp_path):
    small, large = (planned(tmp_path, MAIN, arguments=("--batch-size", size)) for size in ("512", "4096"))
    assert large.stages["update"] > small.stages["update"]
    assert planned(tmp_path, MAIN, batch_size=4096).stages == large.stages
    assert planned(tmp_path, DECORATED, batch_size=4096).stages == large.stages  # in place of its default


@pytest.mark.parametrize(
    "text, name, sizes, message",
    [
        (MARKED + "if True:" + TRAINS, None, {}, r"trains while it is imported, at .*train.py:15: optimizer.step\(\)"),
        (FLAT, "learn", {}, r"trains while it is imported, at .*train.py:14: optimizer.step\(\)"),
        (SETUP, None, {}, "does not train when it is run: mark one update"),
        (SETUP, "learn", {}, r"has learn, but no make\(\)"),
        (SETUP, "absent", {}, "no function 'absent'"),
        (
            NAMED.replace("=256", ""),
            None,
            {},
            r"step is called as step\(state\): missing .*'batch_size'.* --size batch_size",
        ),
        (DECORATED.replace("=512", ""), None, {}, r"main is called as main\(\): missing"),
        (MARKED, None, {"rows": 3}, "learn has no size rows"),
        (MARKED + "\n@plannable()\ndef main(): pass", None, {}, "choose one of learn, main"),
        ("1 / 0", None, {}, r"ZeroDivisionError[\s\S]*train.py:1"),
        (MAIN.replace("1000", "3"), None, {}, "ended before an optimizer had made"),
    ],
)
def test_the_error_names_what_a_file_lacks(tmp_path, text, name, sizes, message):
    with pytest.raises(CannotPlan, match=message):
        planned(tmp_path, text, name, **sizes)


@pytest.mark.slow
def test_the_command_searches_the_batch_size(tmp_path):
    (tmp_path / "train.py").write_text(MARKED)
    text, fits = describe_plan(f"{tmp_path}/train.py", 0.1)
    assert fits and "update" in text and "largest batch_size" in text
    report = json.loads(describe_plan(f"{tmp_path}/train.py:learn", 0.1, as_json=True)[0])
    assert report["batch_size"] == 512 and report["largest_batch_size"] > 1024


@pytest.mark.slow
def test_a_script_that_trains_in_a_pool_is_refused_and_does_not_hang(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(
        SETUP + "def train(seed):\n    state = build()\n    for _ in range(50):\n        learn(state)\n"
        'if __name__ == "__main__":\n    from multiprocessing import Pool\n'
        "    with Pool(2) as pool:\n        pool.map(train, range(2))\n"
    )
    completed = run_cli("fit", tmp_path / "train.py", "--gib", "1", timeout=120)
    assert completed.returncode == 2 and "it trains in processes that it forks" in completed.stderr


@pytest.mark.parametrize("text", [MAIN, FLAT], ids=["guarded", "flat"])
def test_a_script_is_run_once(tmp_path, text, capsys):
    planned(tmp_path, "print('started')\n" + text)
    assert capsys.readouterr().err.count("started") == 1
