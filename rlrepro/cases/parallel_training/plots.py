"""Figures of the chapter, each from records."""

from rlrepro.cases.parallel_training import SMALL_NET
from rlrepro.cases.parallel_training.claims import ALONE, POOL, cores, pool_slowdown, slowdown
from rlrepro.evidence import figures
from rlrepro.evidence.records import MissingRecord, Records
from rlrepro.lab.units import format_value

PHASES = {"step": "a gradient step", "row": "a step of the environment"}
LINES = {"default": (figures.BUGGY, "torch's own threads"), "one": (figures.OURS, "one thread each")}
WAITS = {  # (threads, waits): label and color
    ("default", "default"): ("torch's own threads", figures.BUGGY),
    ("default", "no spinning"): ("same number, GOMP_SPINCOUNT=0", figures.UPSTREAM),
    ("default", "passive"): ("same number, OMP_WAIT_POLICY=PASSIVE", figures.UPSTREAM),
    ("one", "default"): ("one thread each", figures.OURS),
}
WAYS = {  # (way, method, threads): label and color
    ("scripts", None, "default"): ("independent scripts", figures.BUGGY),
    ("pool", "spawn", "default"): ("Pool, spawn", figures.BUGGY),
    ("pool", "forkserver", "default"): ("Pool, forkserver", figures.BUGGY),
    ("loky", None, "all"): ("joblib's loky with all threads", figures.BUGGY),
    ("ray", None, "all"): ("Ray with all threads", figures.BUGGY),
    ("loky", None, "framework"): ("joblib's loky as it is", figures.UPSTREAM),
    ("ray", None, "framework"): ("Ray as it is", figures.UPSTREAM),
}


def plot_phases(records: Records):
    """Time of one step of either phase against the number of runs in a Pool."""
    figure, panels = figures.new_figure(
        "Time of one step, by the number of training runs in a Pool", width=11, columns=2
    )
    times = []
    for axes, phase in zip(panels, PHASES, strict=True):
        for threads, (color, label) in LINES.items():
            setting = POOL | {"threads": threads, "waits": "default"}
            measured = records.along(f"parallel_training.{phase}", "processes", **setting)
            figures.draw_line(axes, measured, color, label)
            times += [record.value for record in measured.values()]
        alone = measured[min(measured)].value
        fair_share = {count: alone * max(1, count / cores(records)) for count in measured}
        figures.draw_line(axes, fair_share, figures.NEUTRAL, "its share of the cores", ":", unit="s")
    for axes, title in zip(panels, PHASES.values(), strict=True):
        figures.count_axis(axes.xaxis, measured)
        figures.seconds_axis(axes.yaxis)
        axes.set_ylim(min(times) / 2, max(times) * 2)
        figures.label_lines(axes)
        axes.set_title(title, loc="left", fontsize=11)
        axes.set(xlabel="training runs at once", ylabel="time")
    figures.caption(figure, records.get("parallel_training.step", **ALONE), "mean over the runs")
    return figure


def plot_waits(records: Records):
    """CPU time of one gradient step, by how the threads wait, against one run alone."""
    dots = {}
    for (threads, waits), (label, color) in WAITS.items():
        values = records.along("parallel_training.step_cpu", "processes", **POOL, threads=threads, waits=waits)
        processes = max(values)
        dots[label] = (values[processes], color)
    alone = records.get("parallel_training.step_cpu", **ALONE)
    dots["alone, one thread"] = (alone, figures.NEUTRAL)
    figure = _dots(f"CPU time of one gradient step, with {processes} runs at once", dots, "s")
    figures.caption(figure, alone, "mean over the runs")
    return figure


def plot_ways(records: Records):
    """How much the runs are slowed down, by how they were started."""
    processes, factor = pool_slowdown(records, "default")
    dots = {f"Pool, fork ({processes})": (factor, figures.BUGGY)}
    for (way, method, threads), (label, color) in WAYS.items():
        try:
            count, factor = slowdown(records, way=way, threads=threads, **({"method": method} if method else {}))
        except MissingRecord:  # Ray is not installed
            continue
        dots[f"{label} ({count})"] = (factor, color)
    processes, factor = pool_slowdown(records, "one")
    dots[f"Pool, fork, one thread each ({processes})"] = (factor, figures.OURS)
    title = "Time of a gradient step over what sharing the cores explains"
    figure = _dots(title, dots, "ratio")
    figures.caption(figure, records.get("parallel_training.step", **ALONE), "in brackets: runs at once")
    return figure


def plot_ensemble(records: Records):
    """Seconds of both phases for all members: processes against one batched network."""
    figure, axes = figures.new_figure("The same runs, as processes and as one network", width=9, height=2.8)
    train_records = records.all("parallel_training.members_train")
    baseline = next(way for record in train_records if (way := record.setting["way"]) != "ensemble")
    ways = {
        baseline: ("Stable-Baselines3, a process per core", figures.UPSTREAM),
        "ensemble": ("EnsemblePPO", figures.OURS),
    }
    for position, (way, (_, color)) in enumerate(ways.items()):
        left = 0
        for phase, shade in (("train", 1), ("rollout", 0.45)):
            seconds = records.get(f"parallel_training.members_{phase}", way=way).value
            axes.barh(position, seconds, left=left, color=color, alpha=shade, height=0.6)
            left += seconds
            figures.add_row(figure, ways[way][0], phase, seconds, "s")
        axes.text(left, position, f" {format_value(left, 's')}", va="center", color=color, fontweight="bold")
        axes.text(0, position - 0.32, ways[way][0], va="bottom")
    axes.set_yticks([])
    axes.set_ylim(1.4, -0.7)
    axes.margins(x=0.25)
    axes.set_xlabel("seconds for all members\n(dark: train(), pale: collecting)")
    record = records.get("parallel_training.members_train", way="ensemble")
    figures.caption(figure, record, f"{record.setting['members']} members, Pendulum-v1")
    return figure


def plot_members(records: Records):
    """Throughput of an ensemble, and of its matrix products, over that of one learner alone, against its number of
    members."""
    measured = records.all("parallel_training.members_ratio")
    chip = "the same GPU" if measured[0].device.startswith("cuda") else "the same core"
    figure, axes = figures.new_figure(f"Throughput of an ensemble, over one learner of SB3 alone on {chip}", width=8.4)
    sizes = [record.setting["members"] for record in measured]
    figures.draw_line(axes, dict(zip(sizes, sizes, strict=True)), figures.NEUTRAL, "in proportion", ":", unit="ratio")
    figures.draw_line(axes, dict(zip(sizes, measured, strict=True)), figures.OURS, "EnsemblePPO")
    if floors := records.where("parallel_training.over_products"):  # older records have none
        products = [record.value * floor.value for record, floor in zip(measured, floors, strict=True)]
        line = dict(zip(sizes, products, strict=True))
        figures.draw_line(axes, line, figures.NEUTRAL, "matrix products alone", "--", unit="ratio")
    figures.count_axis(axes.xaxis, sizes)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda value, _: format_value(value, "ratio"))
    figures.equal_decades(axes)
    figures.label_lines(axes)
    axes.set(xlabel="members", ylabel="throughput over that of one learner")
    figures.caption(figure, measured[0], f"hidden layers of {SMALL_NET}, minibatches of 64, one thread")
    return figure


def plot_sequential(records: Records):
    """Memory of the rollout buffers during each of several runs in one process."""
    figure, axes = figures.new_figure("Runs one after another in a process: rollout buffers in memory", width=8.4)
    ways = {"released": (figures.BUGGY, "as released"), "collected": (figures.OURS, "gc.collect() after each run")}
    for way, line_style in ways.items():
        measured = records.along("parallel_training.buffer_bytes", "run", way=way)
        figures.draw_line(axes, measured, *line_style)
    axes.yaxis.set_major_formatter(lambda value, _: format_value(value, "B"))
    own = measured[min(measured)]
    highest = max(record.value for record in records.where("parallel_training.buffer_bytes"))
    ticks = [own.value * count for count in range(round(highest / own.value) + 1)]
    axes.set(xlabel="training run", ylabel="rollout buffers", xticks=list(measured), yticks=ticks)
    figures.label_lines(axes)
    figures.caption(figure, own, "PPO, a tick for each buffer")
    return figure


def _dots(title: str, dots: dict[str, tuple], unit: str):
    """Dots on a logarithmic axis, each with its value: label to (a record or a number, color)."""
    figure, axes = figures.new_figure(title, height=0.55 * len(dots) + 0.9)
    figures.draw_values(axes, [(label, *dot) for label, dot in dots.items()], unit=unit, log=True)
    if unit == "s":
        figures.seconds_axis(axes.xaxis)
    else:
        axes.axvline(1, color=figures.NEUTRAL, ls=":", lw=1.5)
        axes.xaxis.set_major_formatter(lambda value, _: format_value(value, "ratio"))
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.set_xlabel("time of a step" if unit == "ratio" else "CPU time of a step")
    return figure
