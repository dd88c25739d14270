"""The plot of the split of a training run's time."""

import sys

import pytest

from rlrepro.doctor.live.activity import KINDS, Activity
from rlrepro.doctor.live.plot import split_over_time
from rlrepro.doctor.live.report import Report


def ramp(began, kind, points):
    """An activity of `points` seconds of one kind of work, with one point per second."""
    activity = Activity(began, began + points)
    for second in range(1, points + 1):
        activity.points.append((began + second, [float(second) if name == kind else 0.0 for name in KINDS]))
    activity.seconds = activity.points[-1][1]
    return activity


def test_the_split_over_time():
    report = Report("train.py", None)
    first, second = ramp(100.0, "inference", 10), ramp(110.0, "learning", 10)
    report.notes.activities = {"1": first, "2": second}
    edges, shares = split_over_time(report.notes)
    assert edges[0] == 0 and edges[-1] == 20
    middle = len(edges) // 2
    assert (shares[KINDS.index("inference"), :middle] > 0.99).all()
    assert (shares[KINDS.index("learning"), middle:] > 0.99).all()
    figure = report.plot()
    assert "seconds since the first step" in figure.alt() and len(figure.html()) > 1000


def test_a_run_that_ended_before_its_second_point():
    report = Report("train.py", None)
    activity = ramp(100.0, "learning", 1)
    activity.ended, activity.seconds = 102.0, [1.0 if kind in ("learning", "rest") else 0.0 for kind in KINDS]
    report.notes.activities = {"1": activity}
    edges, shares = split_over_time(report.notes)
    assert edges.tolist() == [0, 1, 2]
    assert shares[KINDS.index("learning")].tolist() == [1, 0] and shares[KINDS.index("rest")].tolist() == [0, 1]


def test_nothing_to_plot():
    with pytest.raises(ValueError, match="nothing to plot"):
        Report("train.py", None).plot()


def test_a_plot_without_matplotlib_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("rlrepro.doctor.live.plot", "rlrepro.evidence.figures"):
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match="pip install matplotlib"):
        Report("train.py", None).plot()
