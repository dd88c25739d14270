"""Plots of the chapter, each from records."""

from rlrepro.cases.slice_sampler import BUGGY, FIXED, NEWEST
from rlrepro.cases.slice_sampler.claims import least, widest
from rlrepro.evidence import figures
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import Records

LINES = {  # (release, sampler): its style, colour and name
    (BUGGY, "episode"): ("o-", figures.BUGGY, f"torchrl {BUGGY}"),
    (FIXED, "episode"): ("s-", figures.UPSTREAM, f"{FIXED}"),
    (NEWEST, "episode"): ("o-", figures.UPSTREAM, f"{NEWEST}"),
    (NEWEST, "episode cached"): ("o:", figures.UPSTREAM, f"{NEWEST}, cached"),
    (NEWEST, "ours"): ("o-", figures.OURS, "our sampler"),
    (NEWEST, "gather"): ("o:", figures.NEUTRAL, "fetching alone"),
}
LOOPS = {"still": "the buffer does not change (pale: cached)", "online": "after each write (pale: cached)"}


def _draw(axes, records, name, keys, **setting):
    """One line per (release, sampler), with the exponent of its growth at its end."""
    labels = []
    for release, sampler in keys:
        style, color, label = LINES[release, sampler]
        times = records.series(f"slice_sampler.{name}", "stored", release=release, sampler=sampler, **setting)
        stored, seconds = list(times), list(times.values())
        axes.plot(stored, seconds, style, color=color)
        text = f"{label}: stored$^{{{growth_exponent(stored, seconds):.2f}}}$"
        labels.append((stored[-1], seconds[-1], text, color))
    figures.millions_axis(axes.xaxis, stored)
    figures.seconds_axis(axes.yaxis)
    figures.label_lines_at_side(axes, labels)
    axes.set(xlabel="transitions stored")


def plot_sample_against_stored(records: Records, storage: str = "cpu"):
    """Time of one sample against the transitions stored, with nothing written in between."""
    where = "on the GPU" if storage == "cuda" else "that does not change"
    figure, axes = figures.new_figure(f"One sample of 256 slices, from a buffer {where}", width=8.4)
    setting = widest(records, storage=storage)
    capacity = setting["capacity"]
    _draw(axes, records, "sample", list(LINES), capacity=capacity, storage=storage)
    axes.set(ylabel="time of one buffer.sample()")
    record = records.get("slice_sampler.sample", **setting)
    figures.caption(figure, record, f"capacity of {capacity:,} transitions, by episode id")
    return figure


def plot_online(records: Records):
    """Time of the sample after each write, against the transitions stored."""
    figure, axes = figures.new_figure("Write, then sample: the time to find the slices", width=8.4)
    keys = [key for key in LINES if key[0] == NEWEST and key[1] != "gather"]
    _draw(axes, records, "online", keys)
    axes.set(ylabel="time of one sampler.sample()")
    figures.caption(figure, records.get("slice_sampler.online"), "median over writes of 1,000, by episode id")
    return figure


def plot_sample_against_capacity(records: Records):
    """Time of one sample against the capacity, with the same transitions stored."""
    figure, axes = figures.new_figure("The same transitions stored, in buffers of growing capacity", width=8.4)
    setting = least(records)
    times = records.series("slice_sampler.sample", "capacity", **setting)
    capacities, seconds = list(times), list(times.values())
    axes.plot(capacities, seconds, "o-", color=figures.BUGGY)
    exponent = growth_exponent(capacities, seconds)
    text = f"torchrl {BUGGY}: capacity$^{{{exponent:.2f}}}$"
    figures.millions_axis(axes.xaxis, capacities)
    figures.seconds_axis(axes.yaxis)
    axes.set_ylim(min(seconds) / 3, max(seconds) * 3)
    figures.label_lines_at_side(axes, [(capacities[-1], seconds[-1], text, figures.BUGGY)])
    axes.set(xlabel="capacity (transitions)", ylabel="time of one buffer.sample()")
    record = records.get("slice_sampler.sample", **setting)
    figures.caption(figure, record, f"{record.setting['stored']:,} transitions stored, by episode id")
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
    figures.caption(figure, record, f"{record.setting['stored']:,} transitions stored, ids of three widths")
    return figure


def plot_timeline(records: Records):
    """Both loops in each release, oldest first."""
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
        axes.set(ylabel="ms per sample")
    both[-1].set(xlabel="torchrl release")
    record = points[0]
    figures.caption(figure, record, f"{record.setting['stored']:,} transitions stored, by episode id")
    return figure
