"""Tables of the chapter, in Markdown, each from records."""

from rlrepro.cases.parallel_training.claims import (
    POOL,
    SLOWER,
    alone_seconds,
    beyond_share,
    cores,
    pool_slowdown,
    scripts_slowdown,
)
from rlrepro.evidence.records import Records
from rlrepro.lab.units import format_value


def cpu_table(records: Records) -> str:
    """CPU time of one gradient step and how many threads want a core, by how many trainings run at once."""
    setting = POOL | {"waits": "default"}
    quantities = (("step_cpu", "CPU time of a gradient step", "s"), ("runnable", "threads that want a core", "count"))
    series = {
        f"{what}, {label}": (records.series(f"parallel_training.{name}", "processes", **setting, threads=threads), unit)
        for name, what, unit in quantities
        for threads, label in (("default", "torch's own threads"), ("one", "one thread each"))
        if records.where(f"parallel_training.{name}", **setting)  # only Linux tells of threads
    }
    counts = sorted(next(iter(series.values()))[0])
    lines = ["| trainings at once | " + " | ".join(map(str, counts)) + " |", "|---|" + "---|" * len(counts)]
    for label, (found, unit) in series.items():
        shown = " | ".join(format_value(found[count], unit) if count in found else "–" for count in counts)
        lines.append(f"| {label} | {shown} |")
    return "\n".join(lines)


def hypothesis_table(records: Records) -> str:
    """What could slow the trainings down: hypothesis, prediction, observed, and whether it survives."""
    count = cores(records)
    most, slower = pool_slowdown(records, "default")
    _, with_one = pool_slowdown(records, "one")
    _, unspun = pool_slowdown(records, "default", "no spinning")
    _, passive = pool_slowdown(records, "default", "passive")
    scripts = scripts_slowdown(records)[2]
    forward_alone = records.get("parallel_training.seconds", way="forward", processes=1).value
    forward = beyond_share(records, "seconds", forward_alone, way="forward")[1]
    shared, cpu = (
        {
            threads: records.series(f"parallel_training.{name}", "processes", **POOL, threads=threads, waits="default")
            for threads in ("default", "one")
        }
        for name in ("step", "step_cpu")
    )
    shared = shared["one"][count] / alone_seconds(records)
    small = {"way": "pool", "net": "small"}
    small_alone = records.get("parallel_training.step", **small, threads="default", processes=1).value
    small_slower = beyond_share(records, "step", small_alone, **small, threads="default")[1]
    burnt = cpu["default"][most] / cpu["one"][1]
    rows = [
        (
            "the GIL",
            "scripts that share no interpreter are not slowed down",
            f"{scripts:.3g}× beyond their share of the cores",
            scripts <= SLOWER,
        ),
        (
            "a lock in autograd",
            "a process that waits for a lock sleeps and uses no CPU; without autograd nothing is slowed down",
            f"{burnt:.3g}× the CPU time a gradient step; forward passes without autograd slowed down {forward:.3g}×",
            burnt <= SLOWER and forward <= SLOWER,
        ),
        (
            "memory bandwidth",
            f"{count} processes of one thread each slow each other down as well, since they move the same bytes; a "
            "small network, which fits into the cache, is spared",
            f"{shared:.3g}×; the small network {small_slower:.3g}×",
            shared > SLOWER and small_slower <= SLOWER,
        ),
        (
            "too few cores",
            f"{most} processes of one thread each are slowed down as well",
            f"{with_one:.3g}× beyond their share, against {slower:.3g}×",
            with_one > slower / 2,
        ),
        (
            "threads that spin while they wait",
            "one thread each cures it; so does waiting asleep, with as many threads as before",
            f"{with_one:.3g}× with one thread, {unspun:.3g}× without spinning, {passive:.3g}× passive",
            max(with_one, unspun, passive) <= max(SLOWER, slower / 2),
        ),
    ]
    lines = ["| hypothesis | it predicts | observed | |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| {a} | {b} | {c} | {'**survives**' if d else 'falls'} |" for a, b, c, d in rows])
