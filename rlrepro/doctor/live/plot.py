"""A plot of the time split over a run."""

import numpy as np

from rlrepro.doctor.live.activity import KINDS, Activity, training
from rlrepro.doctor.live.notes import Notes
from rlrepro.evidence.figures import new_figure

BINS = 80
COLORS = dict(zip(KINDS, ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#C8C8C8"), strict=True))
NAMES = {"environment": "environment steps", "rest": "the rest"}


def plot_split(notes: Notes):
    """A figure of the share of each kind of work in the time of all training processes, over the run. Raises
    ValueError if no training was observed."""
    edges, shares = split_over_time(notes)
    figure, axes = new_figure("Where the time goes", width=8.4, height=3.2)
    middles = (edges[:-1] + edges[1:]) / 2
    axes.stackplot(middles, shares * 100, colors=list(COLORS.values()), labels=[NAMES.get(k, k) for k in KINDS])
    axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 100), xlabel="seconds since the first step", ylabel="% of the time")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def split_over_time(notes: Notes) -> tuple[np.ndarray, np.ndarray]:
    """(edges of bins in seconds since the first watched call, shares (kinds, bins) of the time spent in each)."""
    lines = [_line(activity) for activity in training(notes.activities.values()) if activity.ended > activity.began]
    if not lines:
        raise ValueError("nothing to plot: no process was seen to train")
    began, ended = min(times[0] for times, _ in lines), max(times[-1] for times, _ in lines)
    longest = max(np.diff(times).max() for times, _ in lines)
    bins = int(np.clip((ended - began) / longest, 2, BINS))  # no finer than the points
    edges = np.linspace(began, ended, bins + 1)
    spent = np.zeros((len(KINDS), bins))
    for times, seconds in lines:
        spent += [np.diff(np.interp(edges, times, kind_seconds)) for kind_seconds in seconds.T]
    return edges - began, spent / np.maximum(spent.sum(axis=0), 1e-9)


def _line(activity: Activity) -> tuple[list[float], np.ndarray]:
    """(points of time, seconds (points, kinds) of each kind of work until then), from a thread's first call to its
    last."""
    points = [(activity.began, [0.0] * len(KINDS)), *activity.points]
    if activity.ended > points[-1][0]:
        points.append((activity.ended, activity.seconds))
    times, seconds = zip(*points, strict=True)
    return list(times), np.array(seconds)
