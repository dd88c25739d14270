"""Figures of the chapter, each from records."""

from rlrepro.cases.parallel_training import SMALL_NET
from rlrepro.cases.parallel_training.claims import ALONE, POOL, cores, pool_slowdown, slowdown
from rlrepro.evidence import figures
from rlrepro.evidence.records import MissingRecord, Records
from rlrepro.lab.units import format_value

PHASES = {"step": "a gradient step", "row": "a step of the environment"}
LINES = {"default": (figures.BUGGY, "torch's own threads"), "one": (figures.OURS, "one thread each")}
WAITS = {  # (threads, waits): what it is called, and its colour
    ("default", "default"): ("torch's own threads", figures.BUGGY),
    ("default", "no spinning"): ("as many, GOMP_SPINCOUNT=0", figures.UPSTREAM),
    ("default", "passive"): ("as many, OMP_WAIT_POLICY=PASSIVE", figures.UPSTREAM),
    ("one", "default"): ("one thread each", figures.OURS),
}
WAYS = {  # (way, method, threads): what it is called, and its colour
    ("scripts", None, "default"): ("independent scripts", figures.BUGGY),
    ("pool", "spawn", "default"): ("Pool, spawn", figures.BUGGY),
    ("pool", "forkserver", "default"): ("Pool, forkserver", figures.BUGGY),
    ("loky", None, "all"): ("joblib's loky with all threads", figures.BUGGY),
    ("ray", None, "all"): ("Ray with all threads", figures.BUGGY),
    ("loky", None, "framework"): ("joblib's loky as it is", figures.UPSTREAM),
    ("ray", None, "framework"): ("Ray as it is", figures.UPSTREAM),
}

POINTS = {"textcoords": "offset points", "fontsize": 10}


def plot_phases(records: Records):
    """Time of one step of either phase against the number of runs in a Pool."""
    figure, both = figures.new_figure("One of K training runs at once, in a Pool", width=11, columns=2)
    labels = {phase: [] for phase in PHASES}
    times = []
    for axes, phase in zip(both, PHASES, strict=True):
        for threads, (color, label) in LINES.items():
            setting = POOL | {"threads": threads, "waits": "default"}
            values = records.series(f"parallel_training.{phase}", "processes", **setting)
            processes, seconds = list(values), list(values.values())
            axes.plot(processes, seconds, "o-", color=color)
            labels[phase].append((processes[-1], seconds[-1], label, color))
            times += seconds
        share = [seconds[0] * max(1, count / cores(records)) for count in processes]
        axes.plot(processes, share, ":", color=figures.NEUTRAL)
        labels[phase].append((processes[-1], share[-1], "its share of the cores", figures.NEUTRAL))
    for axes, (phase, title) in zip(both, PHASES.items(), strict=True):
        figures.count_axis(axes.xaxis, processes)
        figures.seconds_axis(axes.yaxis)
        axes.set_ylim(min(times) / 2, max(times) * 2)
        figures.label_lines_at_side(axes, labels[phase])
        axes.set_title(title, loc="left", fontsize=11)
        axes.set(xlabel="training runs at once", ylabel="time")
    figures.caption(figure, records.get("parallel_training.step", **ALONE), "mean over the runs")
    return figure


def plot_waits(records: Records):
    """CPU time of one gradient step, by how the threads wait, against one run alone."""
    names = {}
    for (threads, waits), (label, color) in WAITS.items():
        values = records.series("parallel_training.step_cpu", "processes", **POOL, threads=threads, waits=waits)
        most = max(values)
        names[label] = (values[most], color)
    alone = records.get("parallel_training.step_cpu", **ALONE)
    names["alone, one thread"] = (alone.value, figures.NEUTRAL)
    figure = _bars(f"CPU time of the same gradient step, {most} at once", names, "s", height=3.4)
    figures.caption(figure, alone, "mean over the runs")
    return figure


def plot_ways(records: Records):
    """How much the runs are slowed down, by how they were started."""
    most, slower = pool_slowdown(records, "default")
    names = {f"Pool, fork ({most})": (slower, figures.BUGGY)}
    for (way, method, threads), (label, color) in WAYS.items():
        try:
            count, slower = slowdown(records, way=way, threads=threads, **({"method": method} if method else {}))
        except MissingRecord:  # Ray is not installed
            continue
        names[f"{label} ({count})"] = (slower, color)
    most, slower = pool_slowdown(records, "one")
    names[f"Pool, fork, one thread each ({most})"] = (slower, figures.OURS)
    title = "Time of a gradient step over its share of the cores"
    figure = _bars(title, names, "ratio", height=4.6)
    figures.caption(figure, records.get("parallel_training.step", **ALONE), "in brackets: runs at once")
    return figure


def plot_ensemble(records: Records):
    """Seconds of both phases for all members: processes against one batched network."""
    figure, axes = figures.new_figure("The same runs, as processes and as one network", width=9, height=2.8)
    of_both = records.all("parallel_training.members_train")
    processes = next(way for record in of_both if (way := record.setting["way"]) != "ensemble")
    ways = {
        processes: ("Stable-Baselines3, a process per core", figures.UPSTREAM),
        "ensemble": ("EnsemblePPO", figures.OURS),
    }
    for position, (way, (_, color)) in enumerate(ways.items()):
        left = 0
        for phase, shade in (("train", 1), ("rollout", 0.45)):
            seconds = records.get(f"parallel_training.members_{phase}", way=way).value
            axes.barh(position, seconds, left=left, color=color, alpha=shade, height=0.6)
            left += seconds
        axes.text(left, position, f" {format_value(left, 's')}", va="center", color=color, fontweight="bold")
    axes.set_yticks(range(len(ways)), [label for label, _ in ways.values()])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("seconds for all members; dark: train(), pale: collecting the rollout")
    record = records.get("parallel_training.members_train", way="ensemble")
    figures.caption(figure, record, f"{record.setting['members']} members, Pendulum-v1")
    return figure


def plot_members(records: Records):
    """Throughput of an ensemble over that of one learner alone, against its number of members."""
    measured = records.all("parallel_training.members_ratio")
    where = "the same GPU" if measured[0].device.startswith("cuda") else "the same core"
    figure, axes = figures.new_figure(f"Throughput of an ensemble, over one learner of SB3 alone on {where}", width=8.4)
    sizes, ratios = zip(*((record.setting["members"], record.value) for record in measured), strict=True)
    axes.plot(sizes, ratios, "o-", color=figures.OURS)
    axes.plot(sizes, sizes, ":", color=figures.NEUTRAL)
    axes.annotate("in proportion to the members", (sizes[-1], sizes[-1]), ha="right", xytext=(-12, -4), **POINTS)
    for size, ratio in zip(sizes, ratios, strict=True):
        place = {"xytext": (0, -18 if ratio < size else 8), "ha": "center"}  # off the dotted line
        axes.annotate(format_value(ratio, "ratio"), (size, ratio), color=figures.OURS, **place, **POINTS)
    figures.count_axis(axes.xaxis, sizes)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda value, _: format_value(value, "ratio"))
    axes.margins(x=0.08, y=0.15)
    axes.set(xlabel="members", ylabel="members' gradient steps per second")
    figures.caption(figure, measured[0], f"hidden layers of {SMALL_NET}, minibatches of 64, one thread")
    return figure


def _bars(title: str, names: dict[str, tuple[float, str]], unit: str, height: float):
    """Horizontal bars on a logarithmic axis, each with its value: name to (value, colour)."""
    figure, axes = figures.new_figure(title, width=9, height=height)
    values = [value for value, _ in names.values()]
    lowest = min([*values, 1 if unit == "ratio" else min(values)]) / 2
    for position, (value, color) in enumerate(names.values()):
        axes.barh(position, value - lowest, left=lowest, color=color, height=0.6)
        axes.text(value, position, f" {format_value(value, unit)}", va="center", color=color, fontweight="bold")
    axes.set_xscale("log")
    axes.set_xlim(lowest, max(values) * 2.5)
    if unit == "s":
        figures.seconds_axis(axes.xaxis)
    else:
        axes.axvline(1, color=figures.NEUTRAL, ls=":", lw=1.5)
        axes.xaxis.set_major_formatter(lambda value, _: format_value(value, "ratio"))
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.set_yticks(range(len(names)), list(names))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    return figure
