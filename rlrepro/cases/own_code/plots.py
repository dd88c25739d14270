"""The project before and after: from records to a figure."""

from rlrepro.evidence import Records
from rlrepro.evidence.figures import BUGGY, OURS, caption, new_figure
from rlrepro.lab import format_value

PANELS = {
    "largest_pass": "ppo.py\nrows in the largest pass\nwithout gradients",
    "sample": "world_model.py\na sample\nfrom the full buffer",
    "train": "sweep.py\ngradient steps of all\nfour trainings",
    "transition": "recommender.py\na stored\ntransition",
}


def plot_before_and_after(records: Records):
    """What each script costs before and after, each in a panel of its own from zero."""
    figure, panels = new_figure("The same four scripts, before and after", columns=4, width=8.4, height=3.6)
    for axes, (name, title) in zip(panels, PANELS.items(), strict=True):
        found = {state: records.get(f"own_project.{name}", state=state) for state in ("before", "after")}
        bars = axes.bar(list(found), [each.value for each in found.values()], color=[BUGGY, OURS], width=0.6)
        axes.bar_label(bars, [format_value(each.value, each.unit) for each in found.values()], padding=2, fontsize=9)
        axes.set_title(title, loc="left", fontsize=9.5)
        axes.set_yticks([])
        axes.grid(False)
        axes.spines["left"].set_visible(False)
        axes.margins(y=0.15)
    caption(figure, found["after"], "each panel from zero")
    return figure
