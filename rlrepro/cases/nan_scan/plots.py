"""Figures of the chapter, each from records."""

from matplotlib.ticker import LogLocator, NullFormatter

from rlrepro.cases.nan_scan import LAST_GOOD, NEWEST, REPORTED_SPEED, REPORTED_STORED
from rlrepro.evidence import figures
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import Records
from rlrepro.lab.units import format_value

STORED = "transitions in the buffer"
GIB = 2**30


def plot_training(records: Records):
    """Training steps of SAC per second, by what the buffer holds."""
    figure, axes = figures.new_figure("SAC: training steps per second as the buffer fills")
    lines = [(LAST_GOOD, False, figures.UPSTREAM, "o-"), (NEWEST, False, figures.BUGGY, "o-")]
    if records.where("nan_scan.step", algorithm="SAC", incremental=True):
        lines.append((NEWEST, True, figures.OURS, "s:"))
    labels = []
    for release, incremental, color, line in lines:
        steps = records.series("nan_scan.step", "stored", release=release, algorithm="SAC", incremental=incremental)
        speeds = [1 / seconds for seconds in steps.values()]
        axes.plot(list(steps), speeds, line, color=color)
        labels.append((max(steps), speeds[-1], f"{release}{' with our fix' if incremental else ''}", color))
    _speed_axis(axes.yaxis)
    figures.millions_axis(axes.xaxis, steps)
    axes.set_xticks(list(steps), [f"{stored:,}" for stored in steps])
    figures.label_lines_at_side(axes, labels)
    axes.set(xlabel=STORED, ylabel="training steps per second")
    figures.caption(figure, records.get("nan_scan.step", release=NEWEST), "networks of 2×256, batch of 256")
    return figure


def plot_scans(records: Records):
    """Seconds of one search for NaN, by what the buffer holds."""
    figure, axes = figures.new_figure(f"One search for NaN in tianshou {NEWEST}")
    labels = []
    for kind, line in (("vectors", "o-"), ("frames", "s-")):
        scans = records.series("nan_scan.scan", "stored", kind=kind)
        sizes, seconds = list(scans), list(scans.values())
        axes.plot(sizes, seconds, line, color=figures.BUGGY)
        text = "vectors" if kind == "vectors" else "frames"
        large = sizes[-2:], seconds[-2:]
        labels.append((sizes[-1], seconds[-1], f"{text}: stored$^{{{growth_exponent(*large):.2f}}}$", figures.BUGGY))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    figures.seconds_axis(axes.yaxis)
    for label in labels:
        figures.label_line(axes, *label)
    axes.margins(y=0.15)
    axes.set(xlabel=STORED, ylabel="time of one search")
    figures.caption(
        figure,
        records.get("nan_scan.scan"),
        "vectors of 17 numbers, stacks of 4×84×84; exponents of the last two points",
    )
    return figure


def plot_memory(records: Records):
    """Host memory of a check on top of the buffer, without the fix and with it."""
    figure, axes = figures.new_figure("Host memory that looking for NaN takes", height=3.2)
    stored = max(records.series("nan_scan.stored_bytes", "stored", kind="frames"))
    bars = (
        ("the buffer itself", records.get("nan_scan.stored_bytes", kind="frames", stored=stored), figures.NEUTRAL),
        (f"a check, {NEWEST}", _check_memory(records, stored, False), figures.BUGGY),
        ("a check, our fix", _check_memory(records, stored, True), figures.OURS),
    )
    for position, (_, record, color) in enumerate(bars):
        axes.barh(position, record.value / GIB, color=color, height=0.6)
        text = f" {format_value(record.value, 'B')}"
        axes.text(record.value / GIB, position, text, va="center", color=color, fontweight="bold")
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="host memory (GiB)")
    figures.caption(figure, record, f"{stored:,} transitions of 4×84×84 frames, each frame stored once")
    return figure


def _speed_axis(axis) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, in plain numbers."""
    axis.axes.set_yscale("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def _check_memory(records, stored, incremental):
    return records.get("nan_scan.scan_memory", kind="frames", stored=stored, incremental=incremental)


def plot_prediction(records: Records):
    """The speed predicted for the example of #1285 while its buffer fills, and what was reported."""
    figure, axes = figures.new_figure("The Atari example of #1285, predicted and reported")
    predicted = records.series("nan_scan.predicted", "stored")
    speeds = [1 / seconds for seconds in predicted.values()]
    # after the first epoch the buffer is full
    axes.plot([*predicted, 2 * REPORTED_STORED], [*speeds, speeds[-1]], "o-", color=figures.BUGGY)
    axes.plot([REPORTED_STORED, 2 * REPORTED_STORED], [REPORTED_SPEED] * 2, "--", color=figures.NEUTRAL)
    axes.axvline(REPORTED_STORED, color=figures.NEUTRAL, lw=1)
    _speed_axis(axes.yaxis)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    faster, end = speeds[-1] > REPORTED_SPEED, 2 * REPORTED_STORED
    figures.label_line(axes, end, speeds[-1], "predicted", figures.BUGGY, above=faster)
    figures.label_line(axes, end, REPORTED_SPEED, "reported, on another machine", figures.NEUTRAL, above=not faster)
    axes.set_ylim(bottom=min(speeds[-1], REPORTED_SPEED) / 2)  # room for the lower label
    axes.text(REPORTED_STORED, 1, " buffer full", transform=axes.get_xaxis_transform(), fontsize=9, va="top")
    axes.set(xlabel="environment steps", ylabel="environment steps per second")
    figures.caption(figure, records.get("nan_scan.predicted"), "one search after every 10 steps")
    return figure
