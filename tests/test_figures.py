"""Figures on a page: both themes, both widths, a table of their numbers; showing a figure doesn't change it."""

import re

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from rlrepro.cases.logp_old import plots as logp_old_plots
from rlrepro.course.site.reference_tabs import plots_of
from rlrepro.evidence import Records, figures, read_records
from rlrepro.evidence.figure_html import NARROW, _dark, html

from .conftest import REFERENCE

DARK_PAGE = 0x14 / 255  # about the background of a dark page


@pytest.fixture
def record():
    path = REFERENCE / "03_slice_sampler.jsonl"
    return next(candidate for candidate in read_records(path) if candidate.unit == "s" and candidate.samples)


@pytest.fixture
def figure(record):
    """Two lines over two decades, one with samples, of a release whose name looks like a number."""
    new, axes = figures.new_figure("Time against size", width=8)
    measured = [record.model_copy(update={"value": factor * record.value}) for factor in (1, 10)]
    figures.draw_line(axes, dict(zip((1_000, 100_000), measured, strict=True)), figures.BUGGY, "torchrl 0.14.1")
    figures.draw_line(axes, {1_000: 1e-3, 100_000: 0.1}, figures.OURS, "ours$^{1.00}$", unit="s")
    axes.set(xlabel="size", ylabel="time")
    figures.count_axis(axes.xaxis, [1_000, 100_000])
    figures.seconds_axis(axes.yaxis)
    figures.label_lines(axes)
    figures.caption(new, record, "what")
    return new


def test_names_of_releases_are_not_rounded(figure):
    page = html(figure)
    assert page.count(">torchrl 0.14.1<") == 4  # beside the line, above it, and twice in the table
    assert not re.search(r'd="[^"]*\.\d\d', page)


def test_a_figure_is_laid_out_as_before_when_it_is_shown_again(figure):
    assert html(figure) == html(figure) == html(figure)


def test_a_page_shows_one_of_two_widths(figure):
    page = html(figure)
    widths = [float(width) / 72 for width in re.findall(r'<svg class="\w+".*? width="([\d.]+)pt"', page, re.DOTALL)]
    assert widths == [pytest.approx(8, abs=0.1), pytest.approx(NARROW, abs=0.1)]
    assert "media(max-width:600px){.plot .wide{display:none}.plot .narrow{display:block}}" in page


def test_each_colour_has_one_for_the_dark(figure):
    page = html(figure)
    drawing = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    used = set(re.findall(r"var\(--x(\w{6})", drawing))
    assert {"d55e00", "009e73", "000000"} <= used <= set(re.findall(r"--x(\w{6}):#", page))
    assert not re.search(r"(fill|stroke): ?#\w{6}", re.sub(r"var\(.*?\)", "", drawing))


@pytest.mark.parametrize("color", [figures.BUGGY, figures.UPSTREAM, figures.OURS, figures.NEUTRAL, "#000000"])
def test_colours_of_roles_are_readable_on_a_dark_page(color):
    def luminance(parts):
        red, green, blue = (((part + 0.055) / 1.055) ** 2.4 if part > 0.04 else part / 12.92 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark = _dark(color[1:].lower())
    ink = luminance([int(dark[position : position + 2], 16) / 255 for position in (1, 3, 5)])
    assert (ink + 0.05) / (luminance([DARK_PAGE] * 3) + 0.05) >= 4.5


def test_the_numbers_are_behind_the_figure_with_the_intervals_of_samples(figure, record):
    low, high = np.quantile(record.samples, (0, 1))
    name, size, value, interval = figure.rows[0]
    assert (name, size) == ("torchrl 0.14.1", "1,000") and value == figures.format_value(record.value, "s")
    assert interval and low < high
    assert figure.rows[2] == ("ours$^{1.00}$", "1,000", "1 ms", "") and len(figure.rows) == 4
    table = html(figure).split("<details>")[1]
    assert table.count("<tr>") == 5 and "<th>size</th><th>time</th><th>interval</th>" in table
    assert "<td>ours<sup>1.00</sup></td><td>100,000</td><td>100 ms</td>" in table


def test_the_alternative_text_has_the_figures_data(figure):
    assert "Time against size. time against size" in figure.alt()
    assert "ours^1.00: 1 ms at 1,000, 100 ms at 100,000" in figure.alt()


def test_a_figure_is_the_same_after_it_was_shown(figure):
    def state():
        figure.draw_without_rendering()
        texts = sorted(text.get_text() for text in figure.findobj(Text) if text.get_visible())
        return texts, tuple(figure.get_size_inches()), figure.axes[0].get_position().bounds

    state()  # computes the layout
    *before, position = state()
    html(figure)
    *after, new_position = state()
    assert after == before and "Time against size" in before[0] and new_position == pytest.approx(position, abs=0.01)


@pytest.mark.parametrize("bases", [(2, 2), (10, 10), (2, 10)])
def test_growth_in_proportion_is_a_slope_of_45_degrees(bases):
    figure, axes = figures.new_figure("slope")
    axes.plot([1, 1000], [1, 1000])
    axes.set_xscale("log", base=bases[0])
    axes.set_yscale("log", base=bases[1])
    figures.equal_decades(axes)
    figure.draw_without_rendering()
    (left, bottom), (right, top) = axes.transData.transform([(1, 1), (1000, 1000)])
    assert top - bottom == pytest.approx(right - left, rel=1e-6)


def test_tick_labels_do_not_touch_on_a_narrow_screen():
    figure, axes = figures.new_figure("ticks")
    sizes = [2**power for power in range(6, 21)]
    figures.draw_line(axes, dict(zip(sizes, sizes, strict=True)), figures.BUGGY, "a", unit="count")
    figures.count_axis(axes.xaxis, sizes)
    wide, narrow = html(figure).split('<svg class="narrow"')
    n_labels = [sum(f">{size:,}<" in part.split("<details")[0] for size in sizes) for part in (wide, narrow)]
    assert n_labels[1] < n_labels[0] <= len(sizes) and ">1,048,576<" in narrow


@pytest.mark.slow
def test_every_figure_of_the_reference_records_has_its_numbers_and_a_distinct_description():
    alts = []
    for path in sorted(REFERENCE.glob("[0-9]*.jsonl")):
        for name, plot in plots_of(path.stem).items():
            if name == "plot_random_updates":  # its records are in another file
                continue
            figure = plot(read_records(path))
            assert len(figure.rows) >= 2 and len(figure.alt()) > 60, name
            alts.append(figure.alt())
    assert len(set(alts)) == len(alts) > 25


def test_a_release_that_processes_the_rollout_at_once_is_shown_as_buggy():
    (record,) = read_records(REFERENCE / "02_logp_old_oom.jsonl").where("logp_old.timeline", release="1.0.0")
    peaks = {"1.0.0": 28.9 * 2**20, "1.1.0": 7.3 * 2**20}  # with a rollout of four chunks, as in the profile smoke
    records = Records(
        record.model_copy(update={"value": peak, "setting": record.setting | {"release": release}})
        for release, peak in peaks.items()
    )
    (axes,) = logp_old_plots.plot_timeline(records).axes
    colors = [to_hex(bar.get_facecolor()).upper() for bar in axes.patches[:2]]
    assert colors == [figures.BUGGY.upper(), figures.UPSTREAM.upper()]
