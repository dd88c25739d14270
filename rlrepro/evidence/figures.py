"""One style for all plots: a colour for each role, direct labels, a caption that names the machine."""

import re
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import figure as mpl_figure
from matplotlib.ticker import FixedFormatter, FuncFormatter, LogLocator, NullFormatter
from PIL import Image

from rlrepro.evidence.records import Record
from rlrepro.lab.units import format_value

# Okabe and Ito's palette, which colour-blind readers can tell apart.
BUGGY, UPSTREAM, OURS, NEUTRAL = "#D55E00", "#0072B2", "#009E73", "#555555"

PALETTE = 128  # colours in a PNG
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

    described = ""

    def save(self, target: Path | BytesIO, kind: str = "png") -> None:
        with mpl.rc_context(STYLE):
            self.savefig(target, format=kind)

    def png(self) -> bytes:
        """The figure as a PNG with a palette, which takes a third of the bytes and looks the same."""
        full, small = BytesIO(), BytesIO()
        self.save(full)
        Image.open(full).convert("RGB").quantize(PALETTE).save(small, "png", optimize=True)
        return small.getvalue()

    def alt(self) -> str:
        """Alternative text: `described` if it is set; otherwise the titles, axis labels and text in the figure."""
        if self.described:
            return self.described
        titles = [self.get_suptitle(), *(axes.get_title(side) for axes in self.axes for side in ("left", "center"))]
        labels = [f"{axes.get_xlabel()} against {axes.get_ylabel()}" for axes in self.axes if axes.get_ylabel()]
        labels += [axes.get_xlabel() for axes in self.axes if axes.get_xlabel() and not axes.get_ylabel()]
        texts = [
            text.get_text() for axes in self.axes for text in (*_category_labels(axes), *axes.texts, *_legend(axes))
        ]
        parts = [*titles, "; ".join(dict.fromkeys(labels)), ", ".join(filter(str.strip, texts))]
        return ". ".join(" ".join(re.sub(r"[${}]", "", part).split()) for part in parts if part.strip())

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        return self.png(), {"alt": self.alt()}


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
        axes.set_title(title, loc="left", **font)
    else:
        figure.suptitle(title, x=0.01, ha="left", **font)
    return figure, axes


def bytes_axis(axis) -> None:
    """Tick labels as KiB, MiB, GiB on a logarithmic axis with base-2 ticks."""
    axis.axes.set_yscale("log", base=2) if axis.axis_name == "y" else axis.axes.set_xscale("log", base=2)
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, "B").replace(".0 ", " ")))
    axis.set_minor_formatter(NullFormatter())


def count_axis(axis, values: Iterable[float]) -> None:
    """A logarithmic axis with a tick at each measured count."""
    axis.axes.set_xscale("log", base=2) if axis.axis_name == "x" else axis.axes.set_yscale("log", base=2)
    values = list(values)
    axis.set_ticks(values, [f"{value:,}" for value in values])
    axis.set_minor_formatter(NullFormatter())


def millions_axis(axis, values: Iterable[float]) -> None:
    """A logarithmic axis with a tick at each measured count, in millions."""
    values = list(values)
    axis.axes.set_xscale("log") if axis.axis_name == "x" else axis.axes.set_yscale("log")
    axis.set_ticks(values, [f"{value / 1e6:,.3g}M" for value in values])
    axis.set_minor_formatter(NullFormatter())


def seconds_axis(axis) -> None:
    """Tick labels as µs, ms, s on a logarithmic axis, with more ticks if the data span less than two decades.

    Call it after plotting.
    """
    axis.axes.set_yscale("log") if axis.axis_name == "y" else axis.axes.set_xscale("log")
    low, high = axis.get_data_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, "s")))
    axis.set_minor_formatter(NullFormatter())


def label_lines_at_side(axes, labels: Iterable[tuple[float, float, str, str]]) -> None:
    """Label each line to the right of its last point, outside the axes: (x, y, text, colour).

    Labels that would overlap are moved apart.
    """
    points_per_pixel = 72 / axes.figure.dpi
    lowest = -np.inf  # where the next label may begin, in points
    for x, y, text, color in sorted(labels, key=lambda label: label[1]):
        height = axes.transData.transform((x, y))[1] * points_per_pixel
        lowest = max(height, lowest)
        options = {"color": color, "fontweight": "bold", "fontsize": 10, "textcoords": "offset points"}
        axes.annotate(text, (x, y), xytext=(8, lowest - height - 4), **options)
        lowest += LABEL_POINTS


def label_line(axes, x, y, text: str, color: str, *, above: bool = True) -> None:
    """Label a line at its last point, in its colour."""
    offset = (0, 8) if above else (0, -16)
    axes.annotate(text, (x, y), xytext=offset, textcoords="offset points", ha="right", color=color, fontweight="bold")


def caption(figure, record: Record, what: str = "") -> None:
    """Under the figure: what was measured, on which machine, with which torch and profile."""
    machine = record.machine
    place = f"{machine.cpu}, {machine.cores} cores" + (f", {machine.gpu}" if record.device.startswith("cuda") else "")
    text = f"{what}{' · ' if what else ''}{place} · torch {machine.versions['torch']} · profile {record.profile}"
    figure.supxlabel(text, fontsize=8.5, color=NEUTRAL, x=0.01, ha="left")
