"""Measurements drawn on axes: each with the interval of its samples, and as a row of the table behind the figure."""

from collections.abc import Mapping, Sequence

import numpy as np

from rlrepro.evidence.estimates import estimate
from rlrepro.evidence.records import Record
from rlrepro.lab.units import format_value, number

SHORT = 14  # characters of a name that stands beside its value, not above
WHISKER = {"lw": 5, "alpha": 0.4, "solid_capstyle": "butt"}


def draw_line(
    axes, measured: Mapping[float, Record | float], color: str, name: str, style: str = "o-", *, unit="", x=""
):
    """A line through measurements by where they were taken, with the intervals of those with samples.

    Args:
        measured: a record for each place on the x axis, or a number in `unit`
        name: what `label_lines` writes beside the line
        x: the unit of the x axis, if it is not a count
    """
    places, values = list(measured), [_value(each) for each in measured.values()]
    intervals = [_interval(each) for each in measured.values()]
    hollow = {"fillstyle": "none"} if style[0] == "s" else {}
    axes.plot(places, values, style, color=color, label=name, **hollow)
    for place, value, interval in zip(places, values, intervals, strict=True):
        if interval:
            axes.plot([place] * 2, interval, "-", color=color, **WHISKER)
        where = format_value(place, x) if x else f"{place:,}"
        add_row(axes.figure, name.lstrip("_"), where, value, _unit(measured[place], unit), interval)


def draw_values(axes, values: Sequence[tuple[str, Record | float, str]], *, unit="", scale=1.0, log=False, at_least=()):
    """A value for each name, from top to bottom: bars from zero, or dots on a logarithmic axis.

    Args:
        values: (name, a record or a number, colour)
        unit: of the numbers, or in place of the records' own
        scale: what is one on the x axis
        at_least: the names of those that may be larger
    """
    short = max(len(name) for name, *_ in values) <= SHORT
    high = max(_value(each) for _, each, _ in values) / scale
    low = min(_value(each) for _, each, _ in values) / scale
    for position, (name, each, color) in enumerate(values):
        value, kind, interval = _value(each) / scale, _unit(each, unit), _interval(each)
        if log:
            axes.plot([value], [position], "o", color=color, ms=9)
        else:
            axes.barh(position, value, color=color, height=0.6 if short else 0.4)
        if interval:
            axes.plot(np.divide(interval, scale), [position] * 2, "-", color=color, **WHISKER)
        told = f"{'at least ' if name in at_least else ''}{format_value(value * scale, kind)}"
        place = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
        right = max(value, interval[1] / scale) if interval else value
        axes.annotate(told, (right, position), color=color, fontweight="bold", **place)
        if not short:
            axes.text(0, position - 0.3, name, transform=axes.get_yaxis_transform(), va="bottom", fontsize=10)
        add_row(axes.figure, name, "", value * scale, kind, interval)
    axes.set_yticks(range(len(values)), [name for name, *_ in values] if short else [""] * len(values))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(values) - 0.5, -0.5 if short else -0.85)
    axes.set_xlim(0, 1.4 * high)
    if log:
        axes.set_xscale("log")
        axes.set_xlim(low / 2, high * (high / low) ** 0.35 * 2)
    axes.grid(axis="y", visible=log)


def draw_dot(axes, measured: Record, position: float, color: str, where: str, name: str, style: str = "o") -> None:
    """A dot for one measurement in a row of others, with its interval. A square is hollow."""
    axes.plot([measured.value], [position], style, color=color, fillstyle="none" if style == "s" else "full")
    if interval := _interval(measured):
        axes.plot(interval, [position] * 2, "-", color=color, **WHISKER)
    add_row(axes.figure, name, where, measured.value, measured.unit, interval)


def add_row(figure, name: str, where: str, value: float, unit: str, interval=None) -> None:
    """Add a number to the table behind the figure."""
    told = [format_value(each, unit) if unit else number(each) for each in (value, *(interval or ()))]
    figure.rows.append((name, where, told[0], " to ".join(told[1:])))


def _value(measured: Record | float) -> float:
    return measured.value if isinstance(measured, Record) else measured


def _unit(measured: Record | float, unit: str) -> str:
    return unit or (measured.unit if isinstance(measured, Record) else "")


def _interval(measured: Record | float) -> tuple[float, float] | None:
    """The 95 % interval of an estimate or of a record with samples; None without."""
    if isinstance(measured, Record):
        return estimate(lambda value: value, measured).interval if measured.samples else None
    return getattr(measured, "interval", None)
