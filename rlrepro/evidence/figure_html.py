"""A figure as a piece of a page: an SVG for wide screens and one for phones, light and dark, and its numbers."""

import colorsys
import re
from contextlib import ExitStack
from html import escape
from io import StringIO
from textwrap import fill, shorten

import matplotlib as mpl
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator

NARROW = 4.2  # inches; a phone's column is nine tenths of that
GAP = 4  # pixels from one tick label to the next
LABEL, ENTRY = 40, 38  # characters of an axis label's line and of a legend's entry there
DARK = "html[data-theme=dark],html[theme=dark],body[data-jp-theme-light=false],body.vscode-dark"
STYLE = (
    ".plot{margin:1em 0;text-align:left}.plot p{margin:.3em 0}.plot div{overflow-x:auto}"
    ".plot svg{display:block;max-width:100%;height:auto;fill:var(--x000000,#000)}"
    ".plot :is(th,td){white-space:normal;text-align:left;padding:.1em .8em .1em 0}"
    ".plot .caption,.plot summary{font-size:.8em}.plot summary{cursor:pointer}.plot .narrow{display:none}"
    ".plot .drawing{min-width:30rem}"
    "@media(max-width:600px){.plot .wide{display:none}.plot .narrow{display:block}}"
)


def html(figure, *, table: bool = True) -> str:
    """The figure, its title, its caption and, folded, its numbers. It follows the page's light or dark theme."""
    kinds = ["drawing"] if figure.is_drawing else ["wide", "narrow"]
    pictures = "".join(_svg(figure, kind) for kind in kinds)
    colors = sorted({"000000", *re.findall(r"var\(--x([0-9a-f]{6})", pictures)})
    dark = ";".join(f"--x{color}:{_dark(color)}" for color in colors)
    parts = [
        '<figure class="plot">',
        f"<style>{STYLE}:is({DARK}) .plot{{{dark}}}</style>",
        f"<p><strong>{escape(figure.title)}</strong></p>",
        f"<div>{pictures}</div>",
        f'<p class="caption">{escape(figure.caption)}</p>' if figure.caption else "",
        _table(figure) if table and figure.rows else "",
        "</figure>",
    ]
    return "".join(parts)


def _svg(figure, kind: str) -> str:
    """The figure without its title and caption, which are text of the page, as an SVG whose colors are variables."""
    target = StringIO()
    with ExitStack() as undo, mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": f"{kind} {figure.alt()}"}):
        for artist in figure.outside:
            _set(undo, artist, "text", "")
        for axes in figure.axes:  # a layout depends on its initial state
            axes.set_subplotspec(axes.get_subplotspec())
        if kind == "narrow":
            _narrow(figure, undo)
        thin_labels(figure, undo)
        _set(undo, figure, "layout_engine", None)  # thin_labels has laid it out; savefig would do so again
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Type": None})
    svg = target.getvalue()[target.getvalue().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d)\d+", r"\1", tag[0]), svg)  # not the text between tags
    svg = re.sub(r"(font: [^;\"]*?\d+px) [^;\"]*", r"\1 system-ui, sans-serif", svg)
    svg = re.sub(r"(fill|stroke): #([0-9a-f]{6})", r"\1:var(--x\2,#\2)", svg)
    svg = re.sub(r'<g>\n? *<path [^>]*style="fill: none"/>\n? *</g>', "", svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    return svg.replace("<svg ", f'<svg class="{kind}" role="img" aria-label="{escape(figure.alt())}" ', 1)


def _dark(color: str) -> str:
    """The same hue for a dark page: what was light becomes dark."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*(int(color[start : start + 2], 16) / 255 for start in (0, 2, 4)))
    rgb = colorsys.hls_to_rgb(hue, 0.95 - 0.85 * lightness, 0.75 * saturation)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in rgb)


def _set(undo: ExitStack, artist, name: str, value) -> None:
    undo.callback(getattr(artist, f"set_{name}"), getattr(artist, f"get_{name}")())
    getattr(artist, f"set_{name}")(value)


def _narrow(figure, undo: ExitStack) -> None:
    """Panels below each other, names of lines above them, and only as many tick labels as have room."""
    width, height = figure.get_size_inches()
    columns = figure.axes[0].get_subplotspec().get_gridspec().ncols
    _set(undo, figure, "size_inches", (min(width, NARROW), height * (0.8 + 0.5 * columns if columns > 1 else 1)))
    if columns > 1:
        grid = GridSpec(len(figure.axes), 1, figure=figure)
        for axes, cell in zip(figure.axes, grid, strict=True):
            _set(undo, axes, "subplotspec", cell)
    for axes in figure.axes:
        named = [(line, note) for line, note in figure.names if note.axes is axes]
        for _, note in named:
            _set(undo, note, "visible", False)
            note.set_in_layout(False)
            undo.callback(note.set_in_layout, True)
        if named:
            handles = [
                Line2D([], [], color=line.get_color(), ls=line.get_linestyle(), marker=line.get_marker())
                for line, _ in reversed(named)
            ]
            names = [note.get_text() for _, note in reversed(named)]
            legend = axes.legend(
                handles, names, loc="lower left", bbox_to_anchor=(0, 1.02), labelcolor="linecolor", frameon=False
            )
            undo.callback(legend.remove)
            if axes.title not in figure.outside and (title := axes.get_title("left")):  # the legend takes its place
                legend.set_title(title)
                legend.set_alignment("left")
                _set(undo, axes._left_title, "text", "")
        for label in (axes.xaxis.label, axes.yaxis.label):
            _set(undo, label, "text", fill(label.get_text(), LABEL))
        for text in axes.get_legend().get_texts() if axes.get_legend() else ():
            _set(undo, text, "text", shorten(text.get_text(), ENTRY, placeholder=" …"))


def thin_labels(figure, undo: ExitStack) -> None:
    """Leave out labels of x axes that would touch the next one, from the largest down."""
    figure.get_layout_engine().execute(figure)
    for axes in figure.axes:
        axes.apply_aspect()  # the layout leaves the axes' shape to the drawing
        _thin(axes.xaxis, undo)


def _thin(axis, undo: ExitStack) -> None:
    low, high = sorted(axis.get_view_interval())
    visible = [
        (position, label)
        for position, label in zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
        if low <= position <= high
    ]
    texts, next_left = [], float("inf")
    for _, label in reversed(visible):
        box = label.get_window_extent()
        texts.append(label.get_text() if box.x1 <= next_left else "")
        next_left = box.x0 - GAP if texts[-1] else next_left
    if "" in texts:
        _set(undo, axis, "major_locator", FixedLocator([position for position, _ in visible]))
        _set(undo, axis, "major_formatter", FixedFormatter(texts[::-1]))


def _table(figure) -> str:
    """The numbers, folded; empty columns are left out."""
    columns = [column for column in range(4) if any(row[column] for row in figure.rows)]
    headings = ["", *figure.headings, "interval"]
    lines = [
        "".join(f"<{tag}>{_superscript(row[column])}</{tag}>" for column in columns)
        for tag, row in [("th", headings), *(("td", row) for row in figure.rows)]
    ]
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<details><summary>The numbers in this figure</summary><div><table>{rows}</table></div></details>"


def _superscript(text: str) -> str:
    return re.sub(r"\$\^\{(.*?)\}\$", r"<sup>\1</sup>", escape(text))
