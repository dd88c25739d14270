"""Figures of the chapter, each from records."""

from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from rlrepro.cases.nan_scan import LAST_GOOD, NEWEST, REPORTED_SPEED, REPORTED_STORED
from rlrepro.evidence import figures
from rlrepro.evidence.estimates import growth
from rlrepro.evidence.records import Records

STORED = "transitions in the buffer"
GIB = 2**30


def plot_training(records: Records):
    """Training steps of SAC per second, by what the buffer holds."""
    figure, axes = figures.new_figure("SAC: training steps per second as the buffer fills")
    lines = [(LAST_GOOD, False, figures.UPSTREAM, "o-"), (NEWEST, False, figures.BUGGY, "o-")]
    if records.where("nan_scan.step", algorithm="SAC", incremental=True):
        lines.append((NEWEST, True, figures.OURS, "s:"))
    for release, incremental, color, line in lines:
        steps = records.series("nan_scan.step", "stored", release=release, algorithm="SAC", incremental=incremental)
        speeds = {stored: 1 / seconds for stored, seconds in steps.items()}
        figures.draw_line(axes, speeds, color, f"{release}{' with our fix' if incremental else ''}", line)
    _speed_axis(axes.yaxis)
    figures.millions_axis(axes.xaxis, steps)
    axes.set_xticks(list(steps), [f"{stored:,}" for stored in steps])
    figures.label_lines(axes)
    axes.set(xlabel=STORED, ylabel="training steps per second")
    figures.caption(figure, records.get("nan_scan.step", release=NEWEST), "networks of 2×256, batch of 256")
    return figure


def plot_scans(records: Records):
    """Seconds of one search for NaN, by what the buffer holds."""
    figure, axes = figures.new_figure(f"One search for NaN in tianshou {NEWEST}")
    for kind, line in (("vectors", "o-"), ("frames", "s-")):
        scans = records.along("nan_scan.scan", "stored", kind=kind)
        large = dict(list(scans.items())[-2:])
        text = f"{kind}: stored$^{{{growth(large):.2f}}}$"
        figures.draw_line(axes, scans, figures.BUGGY, text, line)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    figures.seconds_axis(axes.yaxis)
    figures.equal_decades(axes)
    figures.label_lines(axes)
    axes.set(xlabel=STORED, ylabel="time of one search")
    figures.caption(
        figure,
        records.get("nan_scan.scan"),
        "vectors of 17 numbers, stacks of 4×84×84; exponents of the last two points",
    )
    return figure


def plot_memory(records: Records):
    """Host memory of a check in addition to the buffer, without the fix and with it."""
    figure, axes = figures.new_figure("Host memory of a search for NaN", height=3.2)
    stored = max(records.series("nan_scan.stored_bytes", "stored", kind="frames"))
    bars = (
        ("the buffer itself", records.get("nan_scan.stored_bytes", kind="frames", stored=stored), figures.NEUTRAL),
        (f"a check, {NEWEST}", _check_memory(records, stored, False), figures.BUGGY),
        ("a check, our fix", _check_memory(records, stored, True), figures.OURS),
    )
    figures.draw_values(axes, bars, scale=GIB)
    axes.set(xlabel="host memory (GiB)")
    figures.caption(figure, bars[0][1], f"{stored:,} transitions of 4×84×84 frames, each frame stored once")
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
    speeds = {stored: 1 / seconds for stored, seconds in predicted.items()}
    end = 2 * REPORTED_STORED  # after the first epoch the buffer is full
    figures.draw_line(axes, speeds | {end: list(speeds.values())[-1]}, figures.BUGGY, "predicted")
    reported = {REPORTED_STORED: REPORTED_SPEED, end: REPORTED_SPEED}
    figures.draw_line(axes, reported, figures.NEUTRAL, "reported, on\nanother machine", "--")
    axes.axvline(REPORTED_STORED, color=figures.NEUTRAL, lw=1)
    _speed_axis(axes.yaxis)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    figures.label_lines(axes)
    axes.text(REPORTED_STORED, 1, " buffer full", transform=axes.get_xaxis_transform(), fontsize=9, va="top")
    axes.set(xlabel="environment steps", ylabel="environment steps per second")
    figures.caption(figure, records.get("nan_scan.predicted"), "one search after every 10 steps")
    return figure
