"""Measurements drawn on axes: each with the interval of its samples, and as a row of the table behind the figure."""

from collections.abc import Mapping, Sequence

import numpy as np

from rlrepro.evidence.estimates import estimate
from rlrepro.evidence.records import Record
from rlrepro.lab.units import format_value, number

SHORT = 14  # characters of a name that is written beside its value, not above
WHISKER = {"lw": 5, "alpha": 0.4, "solid_capstyle": "butt"}


def draw_line(
    axes, measured: Mapping[float, Record | float], color: str, name: str, style: str = "o-", *, unit="", x=""
):
    """Draw a line through measurements against their positions, with the intervals of those that have samples.

    Args:
        measured: a record, or a number in `unit`, for each position on the x axis
        name: what `label_lines` writes beside the line
        x: the unit of the x axis, if it is not a count
    """
    positions, values = list(measured), [_value(measurement) for measurement in measured.values()]
    intervals = [_interval(measurement) for measurement in measured.values()]
    hollow = {"fillstyle": "none"} if style[0] == "s" else {}
    axes.plot(positions, values, style, color=color, label=name, **hollow)
    for position, value, interval in zip(positions, values, intervals, strict=True):
        if interval:
            axes.plot([position] * 2, interval, "-", color=color, **WHISKER)
        label = format_value(position, x) if x else f"{position:,}"
        add_row(axes.figure, name.lstrip("_"), label, value, _unit(measured[position], unit), interval)


def draw_values(axes, values: Sequence[tuple[str, Record | float, str]], *, unit="", scale=1.0, log=False, at_least=()):
    """Draw a value for each name, from top to bottom: bars from zero, or dots on a logarithmic axis.

    Args:
        values: (name, a record or a number, color)
        unit: the unit of the numbers, or one that replaces that of the records
        scale: the value that is 1 on the x axis
        at_least: the names of values that are lower bounds
    """
    is_short = max(len(name) for name, *_ in values) <= SHORT
    highest = max(_value(measurement) for _, measurement, _ in values) / scale
    lowest = min(_value(measurement) for _, measurement, _ in values) / scale
    for position, (name, measurement, color) in enumerate(values):
        value, value_unit, interval = _value(measurement) / scale, _unit(measurement, unit), _interval(measurement)
        if log:
            axes.plot([value], [position], "o", color=color, ms=9)
        else:
            axes.barh(position, value, color=color, height=0.6 if is_short else 0.4)
        if interval:
            axes.plot(np.divide(interval, scale), [position] * 2, "-", color=color, **WHISKER)
        label = f"{'at least ' if name in at_least else ''}{format_value(value * scale, value_unit)}"
        text_style = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
        right_end = max(value, interval[1] / scale) if interval else value
        axes.annotate(label, (right_end, position), color=color, fontweight="bold", **text_style)
        if not is_short:
            axes.text(0, position - 0.3, name, transform=axes.get_yaxis_transform(), va="bottom", fontsize=10)
        add_row(axes.figure, name, "", value * scale, value_unit, interval)
    axes.set_yticks(range(len(values)), [name for name, *_ in values] if is_short else [""] * len(values))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(values) - 0.5, -0.5 if is_short else -0.85)
    axes.set_xlim(0, 1.4 * highest)
    if log:
        axes.set_xscale("log")
        axes.set_xlim(lowest / 2, highest * (highest / lowest) ** 0.35 * 2)
    axes.grid(axis="y", visible=log)


def draw_dot(axes, measured: Record, position: float, color: str, where: str, name: str, style: str = "o") -> None:
    """Draw a dot for one measurement in a row of others, with its interval. A square is hollow."""
    axes.plot([measured.value], [position], style, color=color, fillstyle="none" if style == "s" else "full")
    if interval := _interval(measured):
        axes.plot(interval, [position] * 2, "-", color=color, **WHISKER)
    add_row(axes.figure, name, where, measured.value, measured.unit, interval)


def add_row(figure, name: str, where: str, value: float, unit: str, interval=None) -> None:
    """Add a number to the table behind the figure."""
    texts = [format_value(x, unit) if unit else number(x) for x in (value, *(interval or ()))]
    figure.rows.append((name, where, texts[0], " to ".join(texts[1:])))


def _value(measured: Record | float) -> float:
    return measured.value if isinstance(measured, Record) else measured


def _unit(measured: Record | float, unit: str) -> str:
    return unit or (measured.unit if isinstance(measured, Record) else "")


def _interval(measured: Record | float) -> tuple[float, float] | None:
    """The 95 % interval of an estimate or of a record with samples, or None."""
    if isinstance(measured, Record):
        return estimate(lambda value: value, measured).interval if measured.samples else None
    return getattr(measured, "interval", None)
