"""Cells of notebooks that run side by side: those that measure time run alone."""

import os
import threading
from pathlib import Path

import nbformat
import pytest

from rlrepro.course.runner import default_jobs, run_notebooks
from rlrepro.course.turns import TIMED, Stopped, Turns


class Notebook(threading.Thread):
    """A notebook with one cell, which lasts until `go_on` is called."""

    def __init__(self, turns, name, timed):
        super().__init__(name=name, daemon=True)
        self.turns, self.timed = turns, timed
        self.started, self.may_end, self.stopped = threading.Event(), threading.Event(), False
        self.start()

    def run(self):
        try:
            self.turns.start(self.name, self.timed)
        except Stopped:
            self.stopped = True
            return
        self.started.set()
        self.may_end.wait(30)
        self.turns.end(self.name)

    def waits(self):
        return not self.started.wait(0.2)

    def go_on(self):
        assert self.started.wait(10)
        self.may_end.set()
        self.join(10)


def test_untimed_cells_run_together():
    turns = Turns()
    both = [Notebook(turns, name, timed=False) for name in "ab"]
    assert all(notebook.started.wait(10) for notebook in both)
    for notebook in both:
        notebook.go_on()


def test_a_timed_cell_waits_for_the_others_and_they_for_it():
    turns = Turns()
    first = Notebook(turns, "first", timed=False)
    assert first.started.wait(10)
    timed = Notebook(turns, "timed", timed=True)
    assert timed.waits()
    late = Notebook(turns, "late", timed=False)
    assert late.waits()  # the timed cell comes first, or it might never
    first.go_on()
    assert timed.started.wait(10) and late.waits()
    second = Notebook(turns, "second", timed=True)
    assert second.waits()
    timed.go_on()
    second.go_on()
    late.go_on()


def test_a_wait_ends_when_the_run_is_stopped():
    turns = Turns()
    first = Notebook(turns, "first", timed=False)
    assert first.started.wait(10)
    timed = Notebook(turns, "timed", timed=True)
    assert timed.waits()
    turns.stop()
    timed.join(10)
    assert timed.stopped
    first.go_on()


PARAMETERS = 'profile = "smoke"  # how much\ndevice = "auto"  # where\nout = "."  # folder for the records\n'
SLEEPS = "import time\nstart = time.time()\ntime.sleep(0.5)\nprint(start, time.time())"


def write(folder, name, tags):
    parameters = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    cells = [parameters, *(nbformat.v4.new_code_cell(SLEEPS, metadata={"tags": tags}) for _ in range(3))]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path = folder / f"{name}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)
    return path


@pytest.mark.parametrize("tags", [[], [TIMED]])
def test_two_notebooks_run_at_a_time_and_their_timed_cells_never(tmp_path, tags):
    notebooks = [write(tmp_path, name, tags) for name in ("01_a", "02_b")]
    here = Path.cwd()
    runs = list(run_notebooks(notebooks, tmp_path / "out", {"device": "cpu"}, jobs=2))
    assert [run.error for run in runs] == [None, None] and Path.cwd() == here
    spans = [
        tuple(map(float, cell.outputs[0].text.split()))
        for run in runs
        for cell in nbformat.read(run.path, as_version=4).cells
        if cell.cell_type == "code" and cell.outputs
    ]
    assert len(spans) == 6
    overlap = any(a < d and c < b for i, (a, b) in enumerate(spans) for c, d in spans[:i])
    assert overlap == (not tags)


@pytest.mark.slow
def test_the_wait_for_a_turn_is_not_part_of_a_cells_time(tmp_path, monkeypatch):
    monkeypatch.setitem(run_notebooks.__globals__["CELL_SECONDS"], "smoke", 2.0)
    slow = SLEEPS.replace("0.5", "1.2")
    monkeypatch.setitem(globals(), "SLEEPS", slow)
    notebooks = [write(tmp_path, name, [TIMED]) for name in ("01_a", "02_b")]
    runs = list(run_notebooks(notebooks, tmp_path / "out", {"profile": "smoke", "device": "cpu"}, jobs=2))
    assert [run.error for run in runs] == [None, None]


@pytest.mark.parametrize(("given", "jobs"), [({"device": "cpu"}, 2), ({"device": "cpu", "profile": "full"}, 1)])
def test_two_at_a_time_by_default_but_not_at_full_scale(given, jobs):
    assert default_jobs(given) == min(jobs, len(os.sched_getaffinity(0)))
