"""One style for all plots: a color for each role, direct labels, a caption that names the machine."""

import re
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import figure as mpl_figure
from matplotlib.ticker import FixedFormatter, FuncFormatter, LogLocator, NullLocator

from rlrepro.evidence.figure_html import html, thin_labels
from rlrepro.evidence.marks import add_row, draw_dot, draw_line, draw_values  # noqa: F401, as figures.draw_line
from rlrepro.evidence.records import Record
from rlrepro.lab.units import format_value

# Okabe and Ito's palette, which color-blind readers can tell apart.
BUGGY, UPSTREAM, OURS, NEUTRAL = "#D55E00", "#0072B2", "#009E73", "#555555"

LABEL_POINTS = 14  # from one label to the next

STYLE = {
    "savefig.dpi": 110,
    "figure.facecolor": "white",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E5E5E5",
    "axes.axisbelow": True,
    "lines.linewidth": 2.2,
    "lines.markersize": 7,
    "svg.hashsalt": "rlrepro",
}


class Figure(mpl_figure.Figure):
    """A figure in this style, without pyplot's global state. A notebook displays it as a cell's last expression."""

    described = title = caption = ""
    is_drawing = False  # its text has fixed places, so it can't be laid out for a narrow screen
    headings = ("", "")  # of the columns of `rows`: the position, and the quantity that was measured there

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.outside, self.names = [], []  # title and caption; (line, its name beside it)
        self.rows: list[tuple[str, str, str, str]] = []  # (name, position, value, interval), for readers

    def save(self, target: Path | str) -> None:
        """Write the figure to a file, in the format of its extension."""
        with mpl.rc_context(STYLE), ExitStack() as undo:
            thin_labels(self, undo)
            self.savefig(target)

    def alt(self) -> str:
        """Alternative text: the title, and `described` if it is set; otherwise the axes and where each line begins and
        ends, or the text in the figure."""
        parts = [self.title, self.described or self._describe_axes()]
        return ". ".join(" ".join(re.sub(r"[${}]", "", part).split()).rstrip(".") for part in parts if part.strip())

    def _describe_axes(self) -> str:
        labels = [f"{axes.get_ylabel()} against {axes.get_xlabel()}" for axes in self.axes if axes.get_ylabel()]
        labels += [axes.get_xlabel() for axes in self.axes if axes.get_xlabel() and not axes.get_ylabel()]
        if self.rows:
            by_name = {name: [row for row in self.rows if row[0] == name] for name, *_ in self.rows}
            descriptions = [_describe_ends(name, rows) for name, rows in by_name.items()]
        else:
            descriptions = [
                text.get_text() for axes in self.axes for text in (*_category_labels(axes), *axes.texts, *_legend(axes))
            ]
        return ". ".join(filter(None, ["; ".join(dict.fromkeys(labels)), "; ".join(filter(str.strip, descriptions))]))

    def html(self, *, table: bool = True) -> str:
        """The figure as a piece of a page, with its numbers as a table if asked for."""
        return html(self, table=table)

    def _repr_html_(self) -> str:
        return self.html()


def _describe_ends(name: str, rows: list[tuple]) -> str:
    ends = dict.fromkeys(f"{value} at {point}" if point else value for _, point, value, _ in (rows[0], rows[-1]))
    return f"{name}: {', '.join(ends)}"


def _category_labels(axes) -> list:
    """The tick labels of axes with names in place of numbers."""
    categorical = [axis for axis in (axes.xaxis, axes.yaxis) if isinstance(axis.get_major_formatter(), FixedFormatter)]
    return [label for axis in categorical for label in axis.get_ticklabels()]


def _legend(axes) -> list:
    return axes.get_legend().get_texts() if axes.get_legend() else []


def new_figure(title: str, *, width: float = 7.2, height: float = 4.2, rows: int = 1, columns: int = 1):
    """A figure in this style and its axes (an array if there are several), with a title that states the result."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns)
    font = {"fontsize": 12, "fontweight": "bold"}
    if rows * columns == 1:
        artist = axes.set_title(title, loc="left", **font)
    else:
        artist = figure.suptitle(title, x=0.01, ha="left", **font)
    figure.title = title
    figure.outside.append(artist)
    return figure, axes


def bytes_axis(axis) -> None:
    """Tick labels as KiB, MiB, GiB on a logarithmic axis with base-2 ticks."""
    axis.axes.set_yscale("log", base=2) if axis.axis_name == "y" else axis.axes.set_xscale("log", base=2)
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, "B").replace(".0 ", " ")))
    axis.set_minor_locator(NullLocator())


def count_axis(axis, values: Iterable[float]) -> None:
    """A logarithmic axis with a tick at each measured count."""
    axis.axes.set_xscale("log", base=2) if axis.axis_name == "x" else axis.axes.set_yscale("log", base=2)
    values = list(values)
    axis.set_ticks(values, [f"{value:,}" for value in values])
    axis.set_minor_locator(NullLocator())


def millions_axis(axis, values: Iterable[float]) -> None:
    """A logarithmic axis with a tick at each measured count, in millions."""
    values = list(values)
    axis.axes.set_xscale("log") if axis.axis_name == "x" else axis.axes.set_yscale("log")
    axis.set_ticks(values, [f"{value / 1e6:,.3g}M" for value in values])
    axis.set_minor_locator(NullLocator())


def seconds_axis(axis) -> None:
    """Tick labels as µs, ms, s on a logarithmic axis, with more ticks if the data span less than two decades.

    Call it after plotting.
    """
    axis.axes.set_yscale("log") if axis.axis_name == "y" else axis.axes.set_xscale("log")
    low, high = axis.get_data_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, "s")))
    axis.set_minor_locator(NullLocator())


def equal_decades(axes) -> None:
    """Make decades equally long on two logarithmic axes, so that growth in proportion is a slope of 45 degrees. Call it
    after the axes have their scales."""
    lengths = np.log(10) / np.log([axis.get_transform().base for axis in (axes.xaxis, axes.yaxis)])
    axes.set_aspect(lengths[0] / lengths[1], adjustable="box", anchor="W")


def label_lines(axes) -> None:
    """Write the name of each line to the right of its last point, outside the axes. Call it after the axes have their
    scales. Labels that would overlap are moved apart."""
    points_per_pixel = 72 / axes.figure.dpi
    lowest = -np.inf  # where the next label may begin, in points
    named = [line for line in axes.lines if not line.get_label().startswith("_")]
    ends = {line: tuple(line.get_xydata()[-1]) for line in named if len(line.get_xydata())}
    for line in sorted(ends, key=lambda line: ends[line][1]):
        height = axes.transData.transform(ends[line])[1] * points_per_pixel
        lowest = max(height, lowest)
        options = {"color": line.get_color(), "fontweight": "bold", "fontsize": 10, "textcoords": "offset points"}
        note = axes.annotate(line.get_label(), ends[line], xytext=(8, lowest - height - 4), **options)
        axes.figure.names.append((line, note))
        lowest += LABEL_POINTS


def caption(figure, record: Record, what: str = "") -> None:
    """Write under the figure what was measured, on which machine, and with which torch and profile."""
    machine = record.machine
    host = f"{machine.cpu}, {machine.cores} cores" + (f", {machine.gpu}" if record.device.startswith("cuda") else "")
    text = f"{what}{' · ' if what else ''}{host} · torch {machine.versions['torch']} · profile {record.profile}"
    figure.outside.append(figure.supxlabel(text, fontsize=8.5, color=NEUTRAL, x=0.01, ha="left"))
    figure.caption = text
    figure.headings = (figure.axes[-1].get_xlabel(), figure.axes[0].get_ylabel())
