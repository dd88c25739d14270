"""Plots of the chapter, each from records."""

from rlrepro.cases.slice_sampler import BUGGY, FIXED, NEWEST
from rlrepro.cases.slice_sampler.claims import fewest_stored, largest_capacity
from rlrepro.evidence import figures
from rlrepro.evidence.estimates import growth
from rlrepro.evidence.records import Records

LINES = {  # (release, sampler): its style, color and name
    (BUGGY, "episode"): ("o-", figures.BUGGY, f"torchrl {BUGGY}"),
    (FIXED, "episode"): ("s-", figures.UPSTREAM, f"{FIXED}"),
    (NEWEST, "episode"): ("o-", figures.UPSTREAM, f"{NEWEST}"),
    (NEWEST, "episode cached"): ("o:", figures.UPSTREAM, f"{NEWEST}, cached"),
    (NEWEST, "ours"): ("o-", figures.OURS, "our sampler"),
    (NEWEST, "gather"): ("o:", figures.NEUTRAL, "fetching alone"),
}
LOOPS = {"still": "the buffer does not change", "online": "after each write"}


def _draw(axes, records, name, keys, **setting):
    """One line per (release, sampler), with the exponent of its growth at its end."""
    for release, sampler in keys:
        style, color, label = LINES[release, sampler]
        times = records.along(f"slice_sampler.{name}", "stored", release=release, sampler=sampler, **setting)
        text = f"{label}: stored$^{{{growth(times):.2f}}}$"
        figures.draw_line(axes, times, color, text, style)
    figures.millions_axis(axes.xaxis, times)
    figures.seconds_axis(axes.yaxis)
    figures.equal_decades(axes)
    figures.label_lines(axes)
    axes.set(xlabel="transitions stored")


def plot_sample_against_stored(records: Records, storage: str = "cpu"):
    """Time of one sample against the transitions stored, with nothing written in between."""
    condition = "on the GPU" if storage == "cuda" else "that does not change"
    figure, axes = figures.new_figure(f"One sample of 256 slices, from a buffer {condition}", width=8.4)
    setting = largest_capacity(records, storage=storage)
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
    figures.caption(figure, records.get("slice_sampler.online"), "median over writes of 1,000 transitions, by id")
    return figure


def plot_sample_against_capacity(records: Records):
    """Time of one sample against the capacity, with the same transitions stored."""
    figure, axes = figures.new_figure("The same transitions stored, in buffers of growing capacity", width=8.4)
    setting = fewest_stored(records)
    times = records.along("slice_sampler.sample", "capacity", **setting)
    figures.draw_line(axes, times, figures.BUGGY, f"torchrl {BUGGY}: capacity$^{{{growth(times):.2f}}}$")
    figures.millions_axis(axes.xaxis, times)
    figures.seconds_axis(axes.yaxis)
    low, high = axes.get_ylim()
    axes.set_ylim(low / 3, high * 3)
    figures.label_lines(axes)
    axes.set(xlabel="capacity (transitions)", ylabel="time of one buffer.sample()")
    record = records.get("slice_sampler.sample", **setting)
    figures.caption(figure, record, f"{record.setting['stored']:,} transitions stored, by episode id")
    return figure


def plot_moved(records: Records):
    """Time of a sample against the bytes it reads and writes, for ids of several widths."""
    figure, axes = figures.new_figure("Bytes that one sample moves, and the time it takes")
    for release, color in ((BUGGY, figures.BUGGY), (NEWEST, figures.UPSTREAM)):
        moved, seconds = (
            records.along(f"slice_sampler.{name}", "dtype", release=release) for name in ("moved", "moved_in")
        )
        dtypes = sorted(moved, key=lambda dtype: moved[dtype].value)
        offset = {"xytext": (0, -18), "ha": "center"} if release == BUGGY else {"xytext": (-6, 8), "ha": "right"}
        times = {moved[dtype].value: seconds[dtype] for dtype in dtypes}
        figures.draw_line(axes, times, color, f"torchrl {release}", x="B")
        for dtype in dtypes:
            point = moved[dtype].value, seconds[dtype].value
            axes.annotate(dtype, point, color=color, textcoords="offset points", **offset)
    axes.margins(x=0.15, y=0.25)
    figures.bytes_axis(axes.xaxis)
    figures.seconds_axis(axes.yaxis)
    figures.label_lines(axes)
    axes.set(xlabel="bytes read and written", ylabel="time of one sampler.sample()")
    record = records.get("slice_sampler.moved", release=BUGGY)
    figures.caption(figure, record, f"{record.setting['stored']:,} transitions stored, ids of three widths")
    return figure


def plot_timeline(records: Records):
    """Both loops in each release, oldest first."""
    figure, panels = figures.new_figure("Release by release", width=9, height=6, columns=2)
    for axes, (loop, title) in zip(panels, LOOPS.items(), strict=True):
        points = records.all("slice_sampler.timeline", loop=loop)
        releases = [point.setting["release"] for point in points if point.setting["sampler"] == "episode"]
        for sampler, marker in (("episode", "o"), ("episode cached", "s")):
            by_release = {
                releases.index(point.setting["release"]): point
                for point in points
                if point.setting["sampler"] == sampler
            }
            for position, point in by_release.items():
                color = figures.BUGGY if point.setting["release"] == BUGGY else figures.UPSTREAM
                figures.draw_dot(axes, point, position, color, releases[position], f"{title}, {sampler}", marker)
        axes.set_yticks(range(len(releases)), releases)
        axes.set_ylim(len(releases) - 0.5, -0.5)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set(xlabel="time of a sample (hollow: cached)")
    panels[1].sharex(panels[0])
    figures.seconds_axis(panels[0].xaxis)
    figures.seconds_axis(panels[1].xaxis)
    panels[0].set(ylabel="torchrl release")
    record = points[0]
    figures.caption(figure, record, f"{record.setting['stored']:,} transitions stored, by episode id")
    return figure
