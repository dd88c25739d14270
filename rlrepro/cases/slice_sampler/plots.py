"""Figures of the chapter, each from records."""

import itertools

from rlrepro.cases.slice_sampler import BUGGY, FIXED, NEWEST
from rlrepro.cases.slice_sampler.claims import ARTICLE_SECONDS, least, widest
from rlrepro.evidence import figures
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import Records
from rlrepro.lab.units import format_value

LINES = {  # (release, sampler): how it is drawn
    (BUGGY, "episode"): ("o-", figures.BUGGY, f"torchrl {BUGGY}"),
    (FIXED, "episode"): ("s-", figures.UPSTREAM, f"{FIXED}"),
    (NEWEST, "episode"): ("o-", figures.UPSTREAM, f"{NEWEST}"),
    (NEWEST, "episode cached"): ("o:", figures.UPSTREAM, f"{NEWEST}, cached"),
    (NEWEST, "ours"): ("o-", figures.OURS, "ours"),
    (NEWEST, "gather"): ("o:", figures.NEUTRAL, "fetching the rows"),
}
LOOPS = {"still": "the buffer does not change (pale: cached)", "online": "after each write (pale: cached)"}


def _draw(axes, records, name, keys, **setting):
    """A line for each, with the exponent of its growth at its end."""
    labels = []
    for release, sampler in keys:
        style, color, label = LINES[release, sampler]
        found = records.series(f"slice_sampler.{name}", "stored", release=release, sampler=sampler, **setting)
        stored, seconds = list(found), list(found.values())
        axes.plot(stored, seconds, style, color=color)
        text = f"{label}: stored$^{{{growth_exponent(stored, seconds):.2f}}}$"
        labels.append((stored[-1], seconds[-1], text, color))
    figures.millions_axis(axes.xaxis, stored)
    figures.seconds_axis(axes.yaxis)
    figures.label_lines_at_side(axes, labels)
    axes.set(xlabel="rows stored")


def plot_sample_against_stored(records: Records, storage: str = "cpu"):
    """Time of one sample against the rows stored, with nothing written in between."""
    where = "on the GPU" if storage == "cuda" else "that does not change"
    figure, axes = figures.new_figure(f"One sample of 256 slices, from a buffer {where}", width=8.4)
    setting = widest(records, storage=storage)
    capacity = setting["capacity"]
    _draw(axes, records, "sample", list(LINES), capacity=capacity, storage=storage)
    axes.set(ylabel="time of one buffer.sample()")
    record = records.get("slice_sampler.sample", **setting)
    figures.caption(figure, record, f"capacity of {capacity:,} rows, by episode id")
    return figure


def plot_online(records: Records):
    """Time of the sample after each write, against the rows stored."""
    figure, axes = figures.new_figure("Write 1,000 rows, then sample: the time to find the slices", width=8.4)
    keys = [key for key in LINES if key[0] == NEWEST and key[1] != "gather"]
    _draw(axes, records, "online", keys)
    axes.set(ylabel="time of one sampler.sample()")
    figures.caption(figure, records.get("slice_sampler.online"), "median over the writes, by episode id")
    return figure


def plot_sample_against_capacity(records: Records):
    """Time of one sample against the capacity, the same rows stored."""
    figure, axes = figures.new_figure("The same rows stored, in buffers of growing capacity", width=8.4)
    setting = least(records)
    found = records.series("slice_sampler.sample", "capacity", **setting)
    capacities, seconds = list(found), list(found.values())
    axes.plot(capacities, seconds, "o-", color=figures.BUGGY)
    exponent = growth_exponent(capacities, seconds)
    text = f"torchrl {BUGGY}: capacity$^{{{exponent:.2f}}}$"
    figures.millions_axis(axes.xaxis, capacities)
    figures.seconds_axis(axes.yaxis)
    axes.set_ylim(min(seconds) / 3, max(seconds) * 3)
    figures.label_lines_at_side(axes, [(capacities[-1], seconds[-1], text, figures.BUGGY)])
    axes.set(xlabel="capacity (rows)", ylabel="time of one buffer.sample()")
    record = records.get("slice_sampler.sample", **setting)
    figures.caption(figure, record, f"{record.setting['stored']:,} rows stored, by episode id")
    return figure


def plot_moved(records: Records):
    """Time of a sample against the bytes it reads and writes, for ids of several widths."""
    figure, axes = figures.new_figure("Bytes that one sample moves, and the time it takes")
    for release, color in ((BUGGY, figures.BUGGY), (NEWEST, figures.UPSTREAM)):
        moved, taken = (
            records.series(f"slice_sampler.{name}", "dtype", release=release) for name in ("moved", "moved_in")
        )
        kinds = sorted(moved, key=moved.get)
        where = {"xytext": (6, -14)} if release == BUGGY else {"xytext": (-6, 8), "ha": "right"}
        axes.plot(
            [moved[kind] for kind in kinds],
            [taken[kind] for kind in kinds],
            "o-",
            color=color,
            label=f"torchrl {release}",
        )
        for kind in kinds:
            axes.annotate(kind, (moved[kind], taken[kind]), color=color, textcoords="offset points", **where)
    axes.legend(frameon=False, labelcolor="linecolor")
    figures.bytes_axis(axes.xaxis)
    figures.seconds_axis(axes.yaxis)
    axes.margins(x=0.1, y=0.25)
    axes.set(xlabel="bytes read and written", ylabel="time of one sampler.sample()")
    record = records.get("slice_sampler.moved", release=BUGGY)
    figures.caption(figure, record, f"{record.setting['stored']:,} rows stored, ids of three widths")
    return figure


def plot_timeline(records: Records):
    """Both loops in each release, in the order of their publication."""
    figure, both = figures.new_figure("Release by release", width=9, height=5.6, rows=2)
    for axes, (loop, title) in zip(both, LOOPS.items(), strict=True):
        for offset, sampler in ((-0.2, "episode"), (0.2, "episode cached")):
            points = records.all("slice_sampler.timeline", loop=loop, sampler=sampler)
            for position, point in enumerate(points):
                color = figures.BUGGY if point.setting["release"] == BUGGY else figures.UPSTREAM
                shade = 0.45 if sampler == "episode cached" else 1
                milliseconds = point.value * 1e3
                axes.bar(position + offset, milliseconds, color=color, width=0.38, alpha=shade)
                text = f"{milliseconds:.2g}"
                axes.text(position + offset, milliseconds, text, ha="center", va="bottom", color=color, fontsize=9)
        axes.set_xticks(range(len(points)), [point.setting["release"] for point in points])
        axes.set_title(title, loc="left", fontsize=10)
        axes.margins(y=0.2)
        axes.grid(axis="x", visible=False)
        axes.set(ylabel="ms a sample")
    both[-1].set(xlabel="torchrl release")
    record = points[0]
    figures.caption(figure, record, f"{record.setting['stored']:,} rows stored, by episode id")
    return figure


def cost_table(records: Records) -> str:
    """What a sample costs with the most rows stored, as a Markdown table."""
    lines = ["| | find and fetch, nothing written | find only, after a write |", "|---|---|---|"]
    stored = max(records.series("slice_sampler.online", "stored", release=NEWEST))
    for release, sampler in LINES:
        setting = {"release": release, "sampler": sampler, "stored": stored}
        found = [
            records.where("slice_sampler.sample", storage="cpu", **setting),
            records.where("slice_sampler.online", **setting),
        ]
        cells = [format_value(each[-1].value, "s") if each else "" for each in found]
        lines.append(f"| {LINES[release, sampler][2]} | {' | '.join(cells)} |")
    return f"A sample of 256 slices from {stored:,} rows:\n\n" + "\n".join(lines)


def cell_table(records: Records, storages: tuple[str, ...] = ("cpu",)) -> str:
    """The article's three cells, as it gives them and as they are here with these storages, as a Markdown table with a
    dash where this profile does not measure it."""
    heads = [f"{stored / 1e6:,.0f}M stored of {capacity / 1e6:,.0f}M" for stored, capacity in ARTICLE_SECONDS]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    lines.append(f"| the article | {' | '.join(format_value(seconds, 's') for seconds in ARTICLE_SECONDS.values())} |")
    kinds = ("episode", "episode cached", "done", "done cached")
    for release, name, storage in itertools.product((BUGGY, FIXED, NEWEST), kinds, storages):
        cells = []
        for stored, capacity in ARTICLE_SECONDS:
            setting = {"stored": stored, "capacity": capacity, "release": release, "sampler": name}
            found = records.where("slice_sampler.sample", storage=storage, **setting)
            cells.append(format_value(found[-1].value, "s") if found else "–")
        where = ", on the GPU" if storage == "cuda" else ""
        lines.append(f"| {release}, {name.replace('episode', 'id')}{where} | {' | '.join(cells)} |")
    return "\n".join(lines)
