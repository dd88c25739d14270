"""Figures of the chapter, each from records."""

import numpy as np

from rlrepro.cases.logp_old import BUGGY, FIXED, NEWEST
from rlrepro.evidence import figures
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import Records
from rlrepro.lab.memory_history import BEFORE
from rlrepro.lab.units import format_value

MIB = 2**20
WHOLE_ROLLOUT = 4  # times the smallest peak: from there on, a release counts as processing the whole rollout at once
LINES_SHOWN = 2  # of code, in a history
REST = "all other lines"
SHADES = {BEFORE: "#C9D2D9", REST: "#E4E9ED"}
ROLES = {BUGGY: figures.BUGGY, FIXED: figures.UPSTREAM, NEWEST: figures.UPSTREAM}


def plot_peak_against_rows(records: Records, network: str = "nature"):
    """Peak of preprocessing against the length of the rollout, by release, with fitted exponents."""
    figure, axes = figures.new_figure("Peak memory of preprocessing against the length of the rollout")
    for release, line in ((BUGGY, "o-"), (FIXED, "o-"), (NEWEST, "s:")):
        series = records.series("logp_old.peak", "rows", release=release, network=network)
        rows, peaks = list(series), list(series.values())
        axes.plot(rows, peaks, line, color=ROLES[release], fillstyle="none" if release == NEWEST else "full")
        text = f"tianshou {release}: length$^{{{growth_exponent(rows, peaks):.2f}}}$"
        figures.label_line(axes, rows[-1], peaks[-1], text, ROLES[release], above=release != NEWEST)
    figures.count_axis(axes.xaxis, rows)
    figures.bytes_axis(axes.yaxis)
    axes.margins(y=0.15)
    axes.set(xlabel="length of the rollout (transitions)", ylabel="peak memory of preprocessing")
    record = records.get("logp_old.peak", release=BUGGY, network=network)
    figures.caption(figure, record, f"Nature CNN, max_batchsize={record.setting['max_batchsize']}")
    return figure


def plot_peak_against_chunk(records: Records):
    """Peak of preprocessing against `max_batchsize`, the parameter that should bound it."""
    figure, axes = figures.new_figure("Peak memory of preprocessing against max_batchsize")
    for release in (BUGGY, FIXED):
        series = records.series("logp_old.peak_by_chunk", "max_batchsize", release=release)
        sizes, peaks = list(series), list(series.values())
        axes.plot(sizes, peaks, "o-", color=ROLES[release])
        at, above = (0, True) if release == BUGGY else (len(sizes) // 2, False)
        axes.annotate(
            f"tianshou {release}",
            (sizes[at], peaks[at]),
            xytext=(4, 10 if above else -18),
            textcoords="offset points",
            color=ROLES[release],
            fontweight="bold",
        )
    figures.count_axis(axes.xaxis, sizes)
    figures.bytes_axis(axes.yaxis)
    axes.margins(y=0.2)
    axes.set(xlabel="max_batchsize (transitions)", ylabel="peak memory of preprocessing")
    record = records.get("logp_old.peak_by_chunk", release=BUGGY)
    figures.caption(figure, record, f"Nature CNN, {record.setting['rows']:,} transitions")
    return figure


def plot_history(records: Records):
    """What is live after each allocation and free, one panel per release, coloured by the line that allocated it."""
    figure, panels = figures.new_figure("Live memory on the card, by the line that allocated it", rows=2, height=6.4)
    for axes, release in zip(panels, (BUGGY, FIXED), strict=True):
        history = records.all("logp_old.live", release=release)
        setting = history[0].setting
        stack = _largest_lines({record.setting["line"]: np.array(record.value) / MIB for record in history})
        limit, events = setting["gib"] * 2**10, setting["events"]
        at = [*np.linspace(0, events - 1, len(stack[BEFORE])), 1.04 * events]  # so that the end is visible
        held = [np.append(live, live[-1]) for live in stack.values()]
        colors = [SHADES.get(line, figures.BUGGY if "logp_old" in line else "#7C93A5") for line in stack]
        axes.stackplot(at, held, colors=colors, labels=stack, lw=0, step="post")
        axes.axhline(limit, color="black", lw=1.2, ls="--")
        axes.set(ylabel=f"tianshou {release}\nlive memory (MiB)", xlim=(0, at[-1]), ylim=(0, 1.15 * limit))
        end = "done" if setting["fits"] else "out of memory"
        for x, text, side in ((0.005, "the card", "left"), (0.995, end, "right")):
            axes.text(x, limit * 1.03, text, transform=axes.get_yaxis_transform(), ha=side, fontsize=9)
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0.84), fontsize=8.5, frameon=False)
        axes.grid(visible=False)
    panels[-1].set_xlabel("allocations and frees, in order")
    what = f"Nature CNN, {setting['rows']:,} transitions, max_batchsize={setting['max_batchsize']}"
    figures.caption(figure, history[0], what)
    return figure


def _largest_lines(live: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What was live before, the lines that held most, and the sum of all others."""
    lines = sorted(live, key=lambda line: live[line].max(), reverse=True)
    shown = [line for line in lines if line != BEFORE][:LINES_SHOWN]
    rest = sum((live[line] for line in lines if line not in (BEFORE, *shown)), np.zeros_like(live[lines[0]]))
    before = live.get(BEFORE, np.zeros_like(rest))
    return {BEFORE: before} | {line: live[line] for line in shown} | {REST: rest}


def plot_timeline(records: Records):
    """Peak of preprocessing in each release, oldest first."""
    figure, axes = figures.new_figure("Peak memory of preprocessing, release by release", width=9)
    points = records.all("logp_old.timeline")
    smallest = min(point.value for point in points if point.value)
    for position, point in enumerate(points):
        if point.value is None:
            axes.text(position, 0, "does not\nimport", ha="center", va="bottom", color=figures.NEUTRAL, fontsize=9)
            continue
        color = figures.BUGGY if point.value > WHOLE_ROLLOUT * smallest else figures.UPSTREAM
        axes.bar(position, point.value / MIB, color=color, width=0.65)
        text = format_value(point.value, "B")
        axes.text(position, point.value / MIB, text, ha="center", va="bottom", color=color, fontsize=10)
    axes.set_xticks(range(len(points)), [point.setting["release"] for point in points])
    axes.set_xlim(-0.6, len(points) - 0.4)
    axes.margins(y=0.12)
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="tianshou release", ylabel="peak memory of preprocessing (MiB)")
    record = points[0]
    figures.caption(figure, record, f"Nature CNN, {record.setting['rows']:,} transitions")
    return figure


def plot_largest_rollout(records: Records):
    """The longest rollout that fits on a card, buggy and fixed release."""
    figure, axes = figures.new_figure("The longest rollout that fits", height=2.6)
    rollouts = [records.get("logp_old.largest_rollout", release=release) for release in (BUGGY, FIXED)]
    for position, record in enumerate(rollouts):
        color = ROLES[record.setting["release"]]
        axes.barh(position, record.value, color=color, height=0.55)
        text = f" {'at least ' if record.setting['at_least'] else ''}{record.value:,} transitions"
        axes.text(record.value, position, text, va="center", color=color, fontweight="bold")
    axes.set_yticks(range(len(rollouts)), [f"tianshou {record.setting['release']}" for record in rollouts])
    axes.invert_yaxis()
    axes.margins(x=0.5)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="transitions in the longest rollout that preprocessing can take")
    figures.caption(
        figure,
        rollouts[0],
        f"Nature CNN, max_batchsize={rollouts[0].setting['max_batchsize']}, card of {rollouts[0].setting['gib']} GiB",
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
    labels = []
    for run, (color, style, text) in lines.items():
        series = {update: each for update, each in records.series("logp_old.drift", "update", run=run).items() if each}
        axes.plot(list(series), list(series.values()), style, color=color, fillstyle="none")
        labels.append((max(series, default=0), series[max(series)] if series else 1e-9, text, color))
    axes.set_yscale("log")
    figures.label_lines_at_side(axes, labels)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="updates", ylabel="largest distance of a weight")
    record = records.get("logp_old.drift", run="chunks")
    figures.caption(figure, record, f"PPO on CartPole-v1, chunks of {record.setting['max_batchsize']}; 0 is not drawn")
    return figure


def plot_gail_and_icm(records: Records):
    """Peak of preprocessing and of an update of GAIL and ICM, as released and with our fix."""
    figure, axes = figures.new_figure("GAIL and ICM, as released and with our fix", height=3.6)
    rows = max(record.setting["rows"] for record in records.all("logp_old.twin_peak"))
    bars = [(name, stage) for name in ("GAIL", "ICM") for stage in ("preprocess", "update")]
    for position, (name, stage) in enumerate(bars):
        for offset, with_fix in ((-0.19, False), (0.19, True)):
            record = records.get("logp_old.twin_peak", twin=name, stage=stage, cured=with_fix, rows=rows)
            color = figures.OURS if with_fix else figures.BUGGY
            axes.barh(position + offset, record.value / MIB, color=color, height=0.34)
            text = f" {'our fix' if with_fix else f'tianshou {NEWEST}'}: {format_value(record.value, 'B')}"
            axes.text(
                record.value / MIB, position + offset, text, va="center", color=color, fontsize=9.5, fontweight="bold"
            )
    axes.set_yticks(range(len(bars)), [f"{name}, {stage}" for name, stage in bars])
    axes.invert_yaxis()
    axes.margins(x=0.45)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="peak memory (MiB)")
    figures.caption(
        figure, record, f"small MLPs, {rows:,} transitions, max_batchsize={record.setting['max_batchsize']}"
    )
    return figure
