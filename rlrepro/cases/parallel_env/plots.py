"""Figures of the chapter, each from records."""

from rlrepro.cases.parallel_env import NEWEST, SLEEPING, SPINNING
from rlrepro.cases.parallel_env.claims import OURS_TIME, environments
from rlrepro.evidence import figures
from rlrepro.evidence.records import Records
from rlrepro.lab.units import format_value

WAITS = {"theirs": (figures.BUGGY, f"torchrl {NEWEST}"), "ours": (figures.OURS, "PatientParallelEnv")}
STEP = "time of one step of an environment"


def plot_parent_cpu(records: Records):
    """How busy the parent is against the time of an environment's step, by release."""
    figure, axes = figures.new_figure("What the parent does while its workers step", width=9)
    lines = (
        (SLEEPING, "theirs", figures.UPSTREAM, "-", f"torchrl {SLEEPING}"),
        (SPINNING, "theirs", figures.BUGGY, ":", f"torchrl {SPINNING}"),
        (NEWEST, "theirs", figures.BUGGY, "-", f"torchrl {NEWEST}"),
        (NEWEST, "ours", figures.OURS, "-", "PatientParallelEnv"),
    )
    for release, wait, color, style, label in lines:
        if not records.where("parallel_env.parent_cpu", release=release, wait=wait):
            continue  # ours is measured later
        busy = records.along("parallel_env.parent_cpu", "seconds", release=release, wait=wait)
        figures.draw_line(axes, busy, color, label, f"o{style}", x="s")
    axes.set(xlabel=STEP, ylabel="cores that the parent keeps busy", ylim=(0, 1.1))
    figures.seconds_axis(axes.xaxis)
    figures.label_lines(axes)
    record = records.get("parallel_env.parent_cpu", release=NEWEST, wait="theirs")
    figures.caption(figure, record, f"{environments(record)}, median of blocks of steps")
    return figure


def plot_crowds(records: Records):
    """Time of a step against the number of environments, which need a core each."""
    figure, axes = figures.new_figure("Time of one step, by the number of environments that compute", width=8)
    for wait, (color, label) in WAITS.items():
        steps = records.along("parallel_env.crowd_step", "workers", wait=wait)
        figures.draw_line(axes, steps, color, label)
    axes.axvline(records.get("parallel_env.cores").value, color=figures.NEUTRAL, linestyle=":")
    figures.count_axis(axes.xaxis, steps)
    figures.seconds_axis(axes.yaxis)
    figures.label_lines(axes)
    axes.set(xlabel="environments (dotted: as many as cores)", ylabel="time of ParallelEnv.step")
    record = records.get("parallel_env.crowd_step")
    figures.caption(figure, record, f"{format_value(record.setting['seconds'], 's')} of computing each")
    return figure


def plot_side_by_side(records: Records):
    """Steps per second of all training runs together, against how many there are."""
    figure, axes = figures.new_figure("Training runs side by side", width=8)
    for wait, (color, label) in WAITS.items():
        steps = records.along("parallel_env.throughput", "runs", wait=wait)
        figures.draw_line(axes, steps, color, label)
    axes.set(xlabel="training runs at once", ylabel="steps per second, all together")
    axes.set_ylim(bottom=0)
    figures.count_axis(axes.xaxis, steps)
    figures.label_lines(axes)
    record = records.get("parallel_env.throughput")
    figures.caption(figure, record, f"{environments(record)} each")
    return figure


def plot_ours_ratio(records: Records):
    """Time of a step, ours over theirs, against the time of an environment's step."""
    figure, axes = figures.new_figure("Sleeping against polling: time of a step", width=8)
    ratios = sorted(records.all("parallel_env.ours_ratio"), key=lambda record: record.setting["seconds"])
    figures.draw_line(axes, {record.setting["seconds"]: record for record in ratios}, figures.OURS, "_ours", x="s")
    axes.axhline(1, color=figures.NEUTRAL, linewidth=1)
    axes.axhline(OURS_TIME, color=figures.BUGGY, linestyle=":")
    figures.seconds_axis(axes.xaxis)
    axes.set(xlabel=STEP, ylabel="ours over theirs (dotted: 5% slower)")
    record = ratios[0]
    figures.caption(figure, record, f"{environments(record)}, blocks timed alternately")
    return figure
