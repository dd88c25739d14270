"""Figures of the chapter, each from records."""

import itertools

import numpy as np
from matplotlib.ticker import MaxNLocator

from rlrepro.cases.logp_old import BUGGY, FIXED, NEWEST
from rlrepro.evidence import figures
from rlrepro.evidence.estimates import growth
from rlrepro.evidence.records import Records
from rlrepro.lab.memory_history import BEFORE
from rlrepro.lab.units import format_value

MIB = 2**20
WHOLE_ROLLOUT = 2  # times the smallest peak: a joined remainder at most doubles a chunk, and a rollout has four chunks
LINES_SHOWN = 2  # of code, in a history
MOMENTS = 200  # in a history
REST = "all other lines"
SHADES = {BEFORE: "#C9D2D9", REST: "#E4E9ED"}
ROLES = {BUGGY: figures.BUGGY, FIXED: figures.UPSTREAM, NEWEST: figures.UPSTREAM}


def plot_peak_against_rows(records: Records, network: str = "nature"):
    """Peak of preprocessing against the length of the rollout, by release, with fitted exponents."""
    figure, axes = figures.new_figure("Peak memory of preprocessing against the length of the rollout")
    for release, style in ((BUGGY, "o-"), (FIXED, "o-"), (NEWEST, "s:")):
        peaks = records.along("logp_old.peak", "rows", release=release, network=network)
        text = f"tianshou {release}: length$^{{{growth(peaks):.2f}}}$"
        figures.draw_line(axes, peaks, ROLES[release], text, style)
    figures.count_axis(axes.xaxis, peaks)
    figures.bytes_axis(axes.yaxis)
    figures.equal_decades(axes)
    figures.label_lines(axes)
    axes.set(xlabel="length of the rollout (transitions)", ylabel="peak memory of preprocessing")
    record = records.get("logp_old.peak", release=BUGGY, network=network)
    figures.caption(figure, record, f"Nature CNN, max_batchsize={record.setting['max_batchsize']}")
    return figure


def plot_peak_against_chunk(records: Records):
    """Peak of preprocessing against `max_batchsize`, the parameter that should bound it."""
    figure, axes = figures.new_figure("Peak memory of preprocessing against max_batchsize")
    for release in (BUGGY, FIXED):
        peaks = records.along("logp_old.peak_by_chunk", "max_batchsize", release=release)
        figures.draw_line(axes, peaks, ROLES[release], f"tianshou {release}")
    figures.count_axis(axes.xaxis, peaks)
    figures.bytes_axis(axes.yaxis)
    figures.label_lines(axes)
    axes.set(xlabel="max_batchsize (transitions)", ylabel="peak memory of preprocessing")
    record = records.get("logp_old.peak_by_chunk", release=BUGGY)
    figures.caption(figure, record, f"Nature CNN, {record.setting['rows']:,} transitions")
    return figure


def plot_history(records: Records):
    """Live memory after each allocation and free, one panel per release, colored by the line that allocated it."""
    figure, panels = figures.new_figure(
        "Live memory on the virtual card, by the line that allocated it", rows=2, height=6.4
    )
    for axes, release in zip(panels, (BUGGY, FIXED), strict=True):
        history = records.all("logp_old.live", release=release)
        setting = history[0].setting
        stack = _largest_lines({record.setting["line"]: np.array(record.value) / MIB for record in history})
        limit, events = setting["gib"] * 2**10, setting["events"]
        stack = _fullest_moments(stack)
        positions = [*np.linspace(0, events - 1, len(stack[BEFORE])), 1.04 * events]  # so that the end is visible
        layers = [np.append(live, live[-1]) for live in stack.values()]
        colors = [SHADES.get(line, figures.BUGGY if "logp_old" in line else "#7C93A5") for line in stack]
        axes.stackplot(positions, layers, colors=colors, labels=stack, lw=0, step="post")
        axes.axhline(limit, color="black", lw=1.2, ls="--")
        axes.set(ylabel=f"tianshou {release}\nlive memory (MiB)", xlim=(0, positions[-1]), ylim=(0, 1.15 * limit))
        for line, live in stack.items():
            figures.add_row(figure, f"tianshou {release}", line, live.max() * MIB, "B")
        outcome = "done" if setting["fits"] else "out of memory"
        highest = ", ".join(f"{line} holds up to {format_value(live.max() * MIB, 'B')}" for line, live in stack.items())
        figure.described += f"tianshou {release} ends with: {outcome}; {highest}. "
        for x, text, alignment in ((0.005, "virtual card", "left"), (0.995, outcome, "right")):
            axes.text(x, limit * 1.03, text, transform=axes.get_yaxis_transform(), ha=alignment, fontsize=9)
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0.84), fontsize=8.5, frameon=False)
        axes.grid(visible=False)
    panels[-1].set_xlabel("allocations and frees, in order")
    workload = f"Nature CNN, {setting['rows']:,} transitions, max_batchsize={setting['max_batchsize']}"
    figures.caption(figure, history[0], workload)
    return figure


def _fullest_moments(stack: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """As many moments as a figure can resolve; where several coincide, the one with the most live memory."""
    total = sum(stack.values())
    parts = np.array_split(np.arange(len(total)), min(MOMENTS, len(total)))
    fullest = [part[total[part].argmax()] for part in parts]
    return {line: live[fullest] for line, live in stack.items()}


def _largest_lines(live: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The memory that was live before, the lines that hold the most, and the sum of all other lines."""
    lines = sorted(live, key=lambda line: live[line].max(), reverse=True)
    largest = [line for line in lines if line != BEFORE][:LINES_SHOWN]
    remainder = sum((live[line] for line in lines if line not in (BEFORE, *largest)), np.zeros_like(live[lines[0]]))
    before = live.get(BEFORE, np.zeros_like(remainder))
    return {BEFORE: before} | {line: live[line] for line in largest} | {REST: remainder}


def plot_timeline(records: Records):
    """Peak of preprocessing in each release, oldest first."""
    figure, axes = figures.new_figure("Peak memory of preprocessing, release by release", height=5)
    points = records.all("logp_old.timeline")
    record = points[0]
    imported = [point for point in points if point.value]
    colors = [
        figures.BUGGY if point.value > WHOLE_ROLLOUT * min(peak.value for peak in imported) else figures.UPSTREAM
        for point in imported
    ]
    releases = [point.setting["release"] for point in imported]
    figures.draw_values(axes, list(zip(releases, imported, colors, strict=True)), scale=MIB)
    missing = ", ".join(point.setting["release"] for point in points if not point.value)
    axes.set(ylabel="tianshou release", xlabel="peak memory of preprocessing (MiB)")
    missing_note = f"; {missing} can't be imported" if missing else ""
    figures.caption(figure, record, f"Nature CNN, {record.setting['rows']:,} transitions{missing_note}")
    return figure


def plot_largest_rollout(records: Records):
    """The longest rollout that fits on a virtual card, in the buggy and in the fixed release."""
    figure, axes = figures.new_figure("The longest rollout that fits", height=2.6)
    rollouts = [records.get("logp_old.largest_rollout", release=release) for release in (BUGGY, FIXED)]
    by_name = {f"tianshou {record.setting['release']}": record for record in rollouts}
    values = [(name, record, ROLES[record.setting["release"]]) for name, record in by_name.items()]
    open_ended = [name for name, record in by_name.items() if record.setting["at_least"]]
    figures.draw_values(axes, values, unit="count", at_least=open_ended)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="transitions")
    figures.caption(
        figure,
        rollouts[0],
        f"Nature CNN, max_batchsize={rollouts[0].setting['max_batchsize']}, "
        f"virtual card of {rollouts[0].setting['gib']} GiB",
    )
    return figure


def plot_drift(records: Records):
    """How far apart the weights of training runs are after each update, where only rounding differs at first."""
    figure, axes = figures.new_figure("Training runs that differ only by rounding, at first", width=8.6)
    lines = {
        "start": (figures.NEUTRAL, ":", "distance from the start"),
        "next float32": (figures.BUGGY, "o-", "one weight nudged"),
        "chunks": (figures.UPSTREAM, "s-", "with chunks"),
    }
    for run, (color, style, text) in lines.items():
        drift = records.along("logp_old.drift", "update", run=run)
        figures.draw_line(
            axes, {update: distance for update, distance in drift.items() if distance.value}, color, text, style
        )
    axes.set_yscale("log")
    figures.label_lines(axes)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="updates", ylabel="largest distance of a weight")
    record = records.get("logp_old.drift", run="chunks")
    figures.caption(figure, record, f"PPO on CartPole-v1, chunks of {record.setting['max_batchsize']}; 0 is not drawn")
    return figure


def plot_gail_and_icm(records: Records):
    """Peak of preprocessing and of an update of GAIL and ICM, as released and with our fix."""
    figure, axes = figures.new_figure("GAIL and ICM, as released and with our fix", height=5.2)
    rows = max(record.setting["rows"] for record in records.all("logp_old.twin_peak"))
    values = []
    for name, stage in itertools.product(("GAIL", "ICM"), ("preprocess", "update")):
        for with_fix, color in ((False, figures.BUGGY), (True, figures.OURS)):
            record = records.get("logp_old.twin_peak", twin=name, stage=stage, fixed=with_fix, rows=rows)
            values.append((f"{name}, {stage}, {'our fix' if with_fix else f'tianshou {NEWEST}'}", record, color))
    figures.draw_values(axes, values, scale=MIB)
    axes.set(xlabel="peak memory (MiB)")
    figures.caption(
        figure, record, f"small MLPs, {rows:,} transitions, max_batchsize={record.setting['max_batchsize']}"
    )
    return figure
