"""Tables and sentences of the chapter, each from records."""

from statistics import median

from rlrepro.cases.parallel_training.claims import (
    POOL,
    SLOWER,
    beyond_share,
    cores,
    pool_slowdown,
    scripts_slowdown,
    steps_alone,
)
from rlrepro.evidence.records import Records
from rlrepro.evidence.tables import markdown_table
from rlrepro.lab.units import format_value


def times_alone(records: Records, name: str, **setting) -> str:
    """How many times longer several at once take than one alone, and how much of that sharing the cores explains."""
    values = records.series(f"parallel_training.{name}", "processes", **setting)
    return "\n".join(
        f"{count} at once take {value / values[1]:.3g} times as long as one alone ({format_value(values[1], 's')}); "
        f"sharing the cores explains {(share := max(1, count / cores(records))):.3g}, which leaves "
        f"{value / values[1] / share:.3g}"
        for count, value in values.items()
        if count > 1
    )


def cpu_table(records: Records) -> str:
    """CPU time of one gradient step and how many threads want a core, by the number of runs at once."""
    setting = POOL | {"waits": "default"}
    quantities = (("step_cpu", "CPU time of a gradient step", "s"), ("runnable", "threads that want a core", "count"))
    series = {
        f"{text}, {label}": (records.series(f"parallel_training.{name}", "processes", **setting, threads=threads), unit)
        for name, text, unit in quantities
        for threads, label in (("default", "torch's own threads"), ("one", "one thread each"))
        if records.where(f"parallel_training.{name}", **setting)  # only Linux reports the states of threads
    }
    counts = sorted(next(iter(series.values()))[0])
    rows = [(label, *(format_value(values.get(n), unit) for n in counts)) for label, (values, unit) in series.items()]
    return markdown_table(("runs at once", *map(str, counts)), rows)


def switch_table(records: Records) -> str:
    """How often a core was taken away from a run, and how often the run gave it up, by how its threads wait."""
    rows = []
    for threads, waits in (("default", "default"), ("default", "passive"), ("one", "default")):
        setting = {**POOL, "threads": threads, "waits": waits}
        series = (
            records.series(f"parallel_training.{name}", "processes", **setting) for name in ("taken_away", "given_up")
        )
        rows.append((threads, waits, *(f"{values[max(values)]:.2f}" for values in series)))
    return markdown_table(("threads", "waits", "core taken away, per gradient step", "given up"), rows)


def cpu_without_waiting(records: Records) -> str:
    """Why even runs of one thread each, which never wait, need more CPU time side by side than alone."""
    setting = POOL | {"threads": "one", "waits": "default"}
    cpu, interrupted = (
        records.series(f"parallel_training.{name}", "processes", **setting) for name in ("step_cpu", "taken_away")
    )
    alone, n_cores, processes = (
        median(record.value for record in records.all("parallel_training.step_cpu", **setting, processes=1)),
        cores(records),
        max(cpu),
    )
    return (
        f"With one thread each, the CPU time of a gradient step is {cpu[n_cores] / alone:.3g} times that of one alone "
        f"({format_value(alone, 's')}) with a run for each of {n_cores} cores, and {cpu[processes] / alone:.3g} times "
        f"with {processes} runs, where the system takes a core away {interrupted[processes]:.2g} times per gradient "
        f"step (against {interrupted[n_cores]:.2g} with a run for each core)."
    )


def framework_threads(records: Records) -> str:
    """How many threads torch has in each process that a framework started."""
    return "\n".join(
        f"{record.setting['way']}, {label}: {record.setting['processes']} processes, number of threads in each: "
        f"{format_value(record.value, 'count')}"
        for record in records.all("parallel_training.torch_threads")
        if (label := {"framework": "as it is", "all": "with all threads"}.get(record.setting["threads"]))
    )


def gpu_table(records: Records) -> str:
    """Time of a gradient step and memory on the GPU, by how many processes share it, and what sharing gains."""
    steps, device_bytes = (
        records.series(f"parallel_training.{name}", "processes", way="gpu") for name in ("step", "device_bytes")
    )
    rows = [(str(n), format_value(steps[n], "s"), format_value(device_bytes[n], "B")) for n in steps]
    table = markdown_table(("processes on one GPU", "a gradient step", "taken on the GPU"), rows)
    if not records.where("parallel_training.sharing_gain"):
        return table
    gain, per_process = (records.get(f"parallel_training.{name}") for name in ("sharing_gain", "bytes_a_process"))
    sentence = (
        f"{max(steps)} processes do {gain.value:.2f} times the gradient steps of {min(steps)}; each further process "
    )
    return f"{table}\n\n{sentence}takes {format_value(per_process.value, 'B')} of the GPU's memory."


def hypothesis_table(records: Records) -> str:
    """What could slow the runs down: hypothesis, prediction, observation, and whether it survives."""
    n_cores = cores(records)
    processes, factor = pool_slowdown(records, "default")
    _, one_thread = pool_slowdown(records, "one")
    _, no_spinning = pool_slowdown(records, "default", "no spinning")
    _, passive = pool_slowdown(records, "default", "passive")
    scripts = scripts_slowdown(records)[1]
    forward_alone = records.get("parallel_training.seconds", way="forward", processes=1)
    forward = beyond_share(records, "seconds", forward_alone, way="forward")[1]
    step, step_cpu = (
        {
            threads: records.series(f"parallel_training.{name}", "processes", **POOL, threads=threads, waits="default")
            for threads in ("default", "one")
        }
        for name in ("step", "step_cpu")
    )
    one_per_core = step["one"][n_cores] / median(record.value for record in steps_alone(records))
    small = {"way": "pool", "net": "small"}
    small_alone = records.get("parallel_training.step", **small, threads="default", processes=1)
    small_factor = beyond_share(records, "step", small_alone, **small, threads="default")[1]
    cpu_ratio = step_cpu["default"][processes] / step_cpu["one"][1]
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
            f"{cpu_ratio:.3g}× the CPU time per gradient step; forward passes without autograd "
            f"{forward:.3g}× beyond their share",
            cpu_ratio <= SLOWER and forward <= SLOWER,
        ),
        (
            "memory bandwidth",
            f"{n_cores} processes of one thread each slow each other down as well, since they move the same bytes; a "
            "small network, which fits into the cache, is spared",
            f"{one_per_core:.3g}× beyond their share; the small network {small_factor:.3g}×",
            one_per_core > SLOWER and small_factor <= SLOWER,
        ),
        (
            "too few cores",
            f"{processes} processes of one thread each are slowed down as well",
            f"{one_thread:.3g}× beyond their share, against {factor:.3g}×",
            one_thread > factor / 2,
        ),
        (
            "threads that spin while they wait",
            "most of the slowdown goes away with one thread each, and also with as many threads as before that sleep "
            "while they wait",
            f"of {factor:.3g}×, {one_thread:.3g}× is left with one thread, {no_spinning:.3g}× without spinning, "
            f"{passive:.3g}× passive (falling asleep and waking up takes time too)",
            max(one_thread, no_spinning, passive) <= max(SLOWER, factor / 2),
        ),
    ]
    rows = [(*texts, "**survives**" if survives else "ruled out") for *texts, survives in rows]
    return markdown_table(("hypothesis", "it predicts", "observed", ""), rows)
