"""The plot of where the time of a training goes."""

import sys

import pytest

from rlrepro.doctor.live.activity import KINDS, Activity
from rlrepro.doctor.live.plot import split_over_time
from rlrepro.doctor.live.report import Report


def ramp(began, kind, points):
    """So many seconds of one kind of work, noted once a second."""
    each = Activity(began, began + points)
    for second in range(1, points + 1):
        each.points.append((began + second, [float(second) if name == kind else 0.0 for name in KINDS]))
    each.seconds = each.points[-1][1]
    return each


def test_the_split_over_time():
    seen = Report("train.py", None)
    first, second = ramp(100.0, "inference", 10), ramp(110.0, "learning", 10)
    seen.notes.activities = {"1": first, "2": second}
    edges, shares = split_over_time(seen.notes)
    assert edges[0] == 0 and edges[-1] == 20
    middle = len(edges) // 2
    assert (shares[KINDS.index("inference"), :middle] > 0.99).all()
    assert (shares[KINDS.index("learning"), middle:] > 0.99).all()
    figure = seen.plot()
    assert "seconds since the first step" in figure.alt() and len(figure.html()) > 1000


def test_a_run_that_ended_before_its_second_point():
    seen = Report("train.py", None)
    each = ramp(100.0, "learning", 1)
    each.ended, each.seconds = 102.0, [1.0 if kind in ("learning", "rest") else 0.0 for kind in KINDS]
    seen.notes.activities = {"1": each}
    edges, shares = split_over_time(seen.notes)
    assert edges.tolist() == [0, 1, 2]
    assert shares[KINDS.index("learning")].tolist() == [1, 0] and shares[KINDS.index("rest")].tolist() == [0, 1]


def test_nothing_to_plot():
    with pytest.raises(ValueError, match="nothing to plot"):
        Report("train.py", None).plot()


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("rlrepro.doctor.live.plot", "rlrepro.evidence.figures"):
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match="pip install matplotlib"):
        Report("train.py", None).plot()
