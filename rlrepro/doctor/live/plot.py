"""The time split of a run, drawn over the run."""

import numpy as np

from rlrepro.doctor.live.activity import KINDS, training
from rlrepro.doctor.live.notes import Notes
from rlrepro.evidence.figures import new_figure

BINS = 80
COLOURS = dict(zip(KINDS, ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#C8C8C8"), strict=True))
NAMES = {"environment": "environment steps", "rest": "the rest"}


def plot_split(notes: Notes):
    """A figure of the share of each kind of work in the time of all training processes, along the run. Raises
    ValueError if no process was seen to train for long enough."""
    edges, shares = split_over_time(notes)
    figure, axes = new_figure("Where the time goes", width=8.4, height=3.2)
    middles = (edges[:-1] + edges[1:]) / 2
    axes.stackplot(middles, shares * 100, colors=list(COLOURS.values()), labels=[NAMES.get(k, k) for k in KINDS])
    axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 100), xlabel="seconds since the first step", ylabel="% of the time")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def split_over_time(notes: Notes) -> tuple[np.ndarray, np.ndarray]:
    """(edges of bins in seconds since the first watched call, shares (kinds, bins) of the time spent in each)."""
    active = [each for each in training(notes.activities.values()) if len(each.points) > 1]
    if not active:
        raise ValueError("nothing to plot: no process was seen to train for half a second")
    began, ended = min(each.began for each in active), max(each.points[-1][0] for each in active)
    longest = max(np.diff([each.began, *(at for at, _ in each.points)]).max() for each in active)
    bins = int(np.clip((ended - began) / longest, 1, BINS))  # no finer than the points
    edges = np.linspace(began, ended, bins + 1)
    spent = np.zeros((len(KINDS), bins))
    for each in active:
        at = [each.began, *(at for at, _ in each.points)]
        until = np.array([[0.0] * len(KINDS), *(seconds for _, seconds in each.points)])
        spent += [np.diff(np.interp(edges, at, kind)) for kind in until.T]
    return edges - began, spent / np.maximum(spent.sum(axis=0), 1e-9)
