"""Notebooks that run at the same time: a cell that is tagged `timed` runs alone."""

import json
import threading
import time
from contextlib import suppress

import nbformat
import pytest

from rlrepro.course.runner import find_notebooks, run_notebooks
from rlrepro.course.turns import Turn, Turns
from rlrepro.lab import limits

SLEEP = """
import json, time
from pathlib import Path

start = time.time()
time.sleep(0.5)
with (Path(out).parent / "intervals.jsonl").open("a") as file:
    file.write(json.dumps({"timed": TIMED, "interval": [start, time.time()]}) + "\\n")
"""
PARAMETERS = 'profile = "smoke"  # how much\ndevice = "cpu"  # where\nout = "."  # folder for the records'
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def code(source, *tags):
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags), "papermill": {}})


@pytest.fixture
def intervals(tmp_path):
    """Run three notebooks with timed and other cells. Returns when these ran, as (start, end, timed), and the runs."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    cells = [code(PARAMETERS, "parameters")]
    for tags in ((), ("timed",), (), ("timed",)):
        cells.append(code(SLEEP.replace("TIMED", str("timed" in tags)), *tags))
    for number in range(3):
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), folder / f"0{number}_sleeps.ipynb")

    def call(profile):
        out = tmp_path / profile
        runs = list(run_notebooks(find_notebooks(folder=folder), out, {"profile": profile, "device": "cpu"}))
        assert [run.error for run in runs] == [None] * 3
        lines = map(json.loads, (out / "partial/intervals.jsonl").read_text().splitlines())
        return sorted((*line["interval"], line["timed"]) for line in lines), runs

    return call


def overlapping(intervals):
    return [(a, b) for i, a in enumerate(intervals) for b in intervals[i + 1 :] if b[0] < a[1]]


@pytest.mark.slow
def test_a_timed_cell_runs_alone_and_others_run_together(intervals):
    ran, runs = intervals("smoke")
    assert len(ran) == 12
    pairs = overlapping(ran)
    assert pairs and not [pair for pair in pairs if pair[0][2] or pair[1][2]]
    durations = [
        cell.metadata.papermill.duration
        for run in runs
        for cell in nbformat.read(run.path, as_version=4).cells
        if "intervals" in cell.source
    ]
    assert len(durations) == 12 and max(durations) < 1  # without the wait for another notebook's timed cell


@pytest.mark.slow
def test_in_tiny_nothing_runs_alone(intervals):
    ran, _ = intervals("tiny")
    assert [pair for pair in overlapping(ran) if pair[0][2] or pair[1][2]]


def test_nobody_overtakes_a_timed_cell():
    turns, order = Turns(2), []
    turns.take(1)

    def take(name, count):
        turns.take(count)
        order.append(name)
        turns.give_back(count)

    threads = [threading.Thread(target=take, args=call, daemon=True) for call in (("timed", 2), ("other", 1))]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    assert order == []
    turns.give_back(1)
    for thread in threads:
        thread.join(10)
    assert order == ["timed", "other"]


def test_a_notebook_that_fails_gives_its_permits_back():
    turns = Turns(2)
    with suppress(ValueError), Turn(turns) as turn:
        turn(cell=code("1", "timed"), cell_index=0)
        raise ValueError
    turns.take(2)


def test_a_wait_for_another_notebook_ends(monkeypatch):
    monkeypatch.setitem(limits.CELL_SECONDS, "full", 0.05)
    turns = Turns(2)
    turns.take(1)
    with pytest.raises(limits.TookTooLong, match=r"the wait for a cell of another notebook .*limit of 0\.1 s"):
        turns.take(2)
    turns.take(1)  # what was taken in vain is free again
