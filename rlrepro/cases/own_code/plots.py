"""Figures of chapter 7, from records."""

from rlrepro.evidence import Records
from rlrepro.evidence.figures import BUGGY, OURS, add_row, caption, new_figure
from rlrepro.lab import format_value

PANELS = {
    "largest_pass": "ppo.py\nlargest forward pass\nwithout gradients",
    "sample": "world_model.py\none sample from\nthe full buffer",
    "train": "sweep.py\ngradient steps of\nall runs",
    "transition": "recommender.py\none stored\ntransition",
    "searched": "newest/sac.py\nsearching the whole\nbuffer for NaN",
    "awake": "newest/robots.py\nwaiting for workers\nwithout sleeping",
    "values": "newest/frames.py\nmemory of\nthe value pass",
}
COLUMNS = 4


def plot_before_and_after(records: Records):
    """The cost of each script that was run, before and after the fixes: one panel per script, all from zero."""
    measured = [name for name in PANELS if records.where(f"own_code.{name}", state="after")] or list(PANELS)
    rows = -(-len(measured) // COLUMNS)
    columns = -(-len(measured) // rows)
    figure, panels = new_figure(
        "The same scripts, before and after", rows=rows, columns=columns, width=8.4, height=0.6 + 2.8 * rows
    )
    for unused in panels.flat[len(measured) :]:
        unused.remove()
    for axes, name in zip(panels.flat, measured, strict=False):
        pair = [records.get(f"own_code.{name}", state=state) for state in ("before", "after")]
        bars = axes.bar(["before", "after"], [record.value for record in pair], color=[BUGGY, OURS], width=0.6)
        for state, record in zip(("before", "after"), pair, strict=True):
            add_row(figure, PANELS[name].replace("\n", " "), state, record.value, record.unit)
        axes.bar_label(bars, [format_value(record.value, record.unit) for record in pair], padding=2, fontsize=9)
        axes.set_title(PANELS[name], loc="left", fontsize=9.5)
        axes.set_yticks([])
        axes.grid(False)
        axes.spines["left"].set_visible(False)
        axes.margins(y=0.15)
    caption(figure, pair[-1], "each panel from zero")
    return figure
