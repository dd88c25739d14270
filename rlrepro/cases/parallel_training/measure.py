"""What the chapter measures, section by section: each function runs training runs and adds records to its `Bench`."""

import os
from dataclasses import asdict
from importlib.util import find_spec
from statistics import median

from rlrepro.cases.common.bench import Bench, at_once
from rlrepro.cases.parallel_training import (
    MEMBERS,
    NET,
    SB3,
    SMALL_NET,
    ensemble_timing,
    launch,
    robots,
    sequential,
    training,
)
from rlrepro.cases.parallel_training.claims import POOL, cores
from rlrepro.cases.parallel_training.records import LAUNCHED
from rlrepro.fixes import thread_budget, thread_variables
from rlrepro.lab import Comparison, Release

THREADS = {"default": {}, "one": {"threads": 1}}
WAITS = {"default": {}, "no spinning": {"GOMP_SPINCOUNT": "0"}, "passive": {"OMP_WAIT_POLICY": "PASSIVE"}}


def parent(bench: Bench, waits: str = "default") -> Release:
    """The process that starts the runs, with threads that wait for each other in this way."""
    return bench.release(f"stable-baselines3=={SB3}", **WAITS[waits])


def configs(bench: Bench, count: int, size: tuple[int, int], **options) -> list[dict]:
    """Settings of `count` training runs of this size, each with a robot of its own."""
    common = {"net": NET, "steps": size[0], "epochs": size[1], **options}
    return [{"robot": asdict(build), "seed": bench.seed + k, **common} for k, build in enumerate(robots.builds(count))]


def prepare(bench: Bench) -> None:
    """Counts the cores and starts the parents. Drops the shell's thread variables first, since they would replace the
    defaults."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", *thread_variables(1)):
        os.environ.pop(name, None)
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    bench.add("cores", thread_budget(1))
    at_once([parent(bench, waits) for waits in WAITS], training.load)


def pools(bench: Bench) -> None:
    """Pools of growing size, with torch's own threads and with one thread each."""
    for threads, options in THREADS.items():
        counts = bench.settings.processes(cores(bench.records))
        repeats_by_count = {cores(bench.records): bench.settings.launches, counts[-1]: bench.settings.launches // 2}
        for count in counts:
            slow = threads == "default" and count > 1
            size = bench.settings.slowed_down if slow else bench.settings.at_pace
            repeats = max(1, repeats_by_count.get(count, 1)) if slow else 1
            launches = [parent(bench).run(launch.pool, configs(bench, count, size, **options)) for _ in range(repeats)]
            _add(bench, launch.pooled(launches), **POOL, processes=count, threads=threads, waits="default")


def scripts(bench: Bench) -> None:
    """Scripts that share no process, against one alone."""
    count = cores(bench.records)
    for processes in (wave * count for wave in bench.settings.script_waves):
        runs = configs(bench, processes, bench.settings.slowed_down)
        rounds = [parent(bench).run(launch.scripts, runs) for _ in range(bench.settings.repeats)]
        spans = {}
        for script_count, measured in zip((1, processes), map(launch.typical, zip(*rounds, strict=True)), strict=True):
            _add(bench, measured, way="scripts", net="large", processes=script_count, threads="default")
            spans[script_count] = measured["span"]
        ideal = spans[1] * processes / count
        ratios = [processes / count * alone["span"] / together["span"] for alone, together in rounds]
        bench.add("of_ideal", ideal / spans[processes], samples=ratios, way="scripts", processes=processes)


def forwards(bench: Bench) -> None:
    """Passes without autograd, in one process and in twice as many as there are cores."""
    for count in (1, 2 * cores(bench.records)):
        passes = [{"net": NET, "count": bench.settings.forwards}] * count
        measured = parent(bench).run(launch.pool, passes, task="forward")
        _add(bench, measured, way="forward", processes=count, threads="default")


def small_networks(bench: Bench) -> None:
    """A network that fits into the cache; and twice more the run alone that all others are compared with."""
    for _ in range(2):
        measured = parent(bench).run(launch.pool, configs(bench, 1, bench.settings.at_pace, threads=1))
        _add(bench, measured, **POOL, processes=1, threads="one", waits="default")
    for threads, options in THREADS.items():
        size = bench.settings.slowed_down if threads == "default" else bench.settings.small
        for count in (1, 2 * cores(bench.records)):
            runs = configs(bench, count, size, **options)
            measured = parent(bench).run(launch.pool, [config | {"net": SMALL_NET} for config in runs])
            _add(bench, measured, **{**POOL, "net": "small"}, processes=count, threads=threads, waits="default")


def sleeping_threads(bench: Bench) -> None:
    """As many threads as by default, but they sleep while they wait."""
    count = bench.settings.processes(cores(bench.records))[-1]
    for waits in ("no spinning", "passive"):
        measured = parent(bench, waits).run(launch.pool, configs(bench, count, bench.settings.at_pace))
        _add(bench, measured, **POOL, processes=count, threads="default", waits=waits)
        parent(bench, waits).close()


def start_methods(bench: Bench) -> None:
    """Pools whose processes are not forked."""
    count = cores(bench.records)
    for method in bench.settings.methods:
        processes = count if method == "spawn" else 2 * count  # spawn imports everything in each process
        runs = configs(bench, processes, bench.settings.slowed_down)
        measured = parent(bench).run(launch.pool, runs, method=method)
        _add(bench, measured, **{**POOL, "method": method}, processes=processes, threads="default")


def frameworks(bench: Bench) -> None:
    """Frameworks with their defaults, and with as many threads in each process as torch takes by default."""
    count = cores(bench.records)
    for way, start in (("loky", launch.loky), ("ray", launch.ray_tasks)):
        if way in bench.settings.frameworks and find_spec(way):
            for threads, size, options in (
                ("framework", bench.settings.at_pace, {}),
                ("all", bench.settings.slowed_down, {"threads": count}),
            ):
                runs = configs(bench, count, size, **options)
                launches = [parent(bench).run(start, runs) for _ in range(bench.settings.launches)]
                _add(bench, launch.pooled(launches), way=way, net="large", processes=count, threads=threads)
            parent(bench).run(launch.end, way)


def fork_after_work(bench: Bench) -> bool:
    """Whether the child of a process that has computed with several threads waits for ever."""
    return bench.add("fork_waits", parent(bench).run(launch.fork_after_work)).value


def gpu(bench: Bench) -> None:
    """Processes that share a GPU: gradient steps, and the memory that each takes on the GPU."""
    steps, memory = {}, {}
    for count in bench.settings.sharing:
        runs = configs(bench, count, bench.settings.at_pace, threads=1, device=bench.device)
        measured = parent(bench).run(launch.pool, runs, method="spawn")
        _add(bench, measured, way="gpu", net="large", processes=count, threads="one")
        steps[count], memory[count] = measured["step"], measured["device_bytes"]
    smallest, largest = min(steps), max(steps)
    bench.add("sharing_gain", largest / smallest * steps[smallest] / steps[largest], processes=largest)
    bench.add("bytes_a_process", (memory[largest] - memory[smallest]) / (largest - smallest), processes=largest)


def sweep(bench: Bench) -> None:
    """Many runs by train_many, against cores that all work at the pace of one run alone, and against a Pool."""
    settings, count = bench.settings, cores(bench.records)
    runs = configs(bench, settings.sweep, settings.slowed_down)
    alone = [config | {"threads": 1} for config in runs[: settings.alone]]
    seconds = parent(bench).run(launch.pool, alone, processes=1)["seconds"]
    measured = parent(bench).run(launch.many, runs)
    _add(bench, measured, way="train_many", net="large", processes=len(runs), threads="one")
    ideal = seconds * len(runs) / count
    part_ratios = [seconds * finished / count / wall for finished, wall, _ in measured["parts"]]
    bench.add("of_ideal", ideal / measured["span"], samples=part_ratios, way="train_many", processes=len(runs))
    part_overheads = [wall / (work / count) - 1 for _, wall, work in measured["parts"]]
    overhead = measured["wall"] / (measured["work"] / count) - 1
    bench.add("overhead", overhead, samples=part_overheads, way="train_many", trainings=len(runs))

    pooled = bench.records.series("parallel_training.span", "processes", **POOL, threads="default", waits="default")
    processes = max(pooled)
    per_run = measured["span"] / len(runs)
    bench.add("pool_over_train_many", pooled[processes] / processes / per_run, processes=processes)


def member_differences(bench: Bench) -> None:
    """Weights of two members of an ensemble, against those of Stable-Baselines3 with the same seeds."""
    from stable_baselines3 import PPO

    from rlrepro.fixes import EnsemblePPO

    sizes = {"n_steps": 64, "n_epochs": 3}
    ensemble = EnsemblePPO("Pendulum-v1", seeds=[bench.seed, bench.seed + 1], vectorization="sync", **sizes)
    ensemble.learn(256)
    for member, seed in enumerate(ensemble.seeds):
        alone = PPO("MlpPolicy", "Pendulum-v1", seed=seed, device="cpu", **sizes).learn(256)
        pairs = zip(ensemble.policy(member).parameters(), alone.policy.parameters(), strict=True)
        difference = max((ours - theirs).abs().max().item() for ours, theirs in pairs)
        bench.add("member_difference", difference, member=member)


def ensemble(bench: Bench) -> None:
    """Many runs with a small network: a process per core, and one ensemble in this process, before and after them."""
    steps, epochs = bench.settings.ensemble
    size = {"net": SMALL_NET, "steps": steps, "epochs": epochs}
    seeds = range(bench.seed, bench.seed + MEMBERS)
    count = cores(bench.records)
    runs = [{"robot": None, "seed": seed, "threads": 1, **size} for seed in seeds]
    ensembles = [launch.ensemble(seeds, **size) for _ in range(bench.settings.repeats)]
    in_pool = parent(bench).run(launch.pool, runs, processes=count)
    ensembles += [launch.ensemble(seeds, **size) for _ in range(bench.settings.repeats)]
    together = launch.typical(ensembles)
    per_core = {phase: in_pool[phase] * MEMBERS / count for phase in ("rollout", "train")}
    for phase, seconds in per_core.items():
        bench.add(f"members_{phase}", seconds, way="processes", members=MEMBERS)
        bench.add(f"members_{phase}", together[phase], way="ensemble", members=MEMBERS)
    bench.add("ensemble_ratio", per_core["train"] / together["train"], phase="train", members=MEMBERS)
    bench.add("ensemble_ratio", in_pool["span"] / together["seconds"], phase="whole", members=MEMBERS)


def members(bench: Bench) -> None:
    """Gradient steps of ensembles of growing size, against those of one learner alone, and against their matrix
    products."""
    seconds = ensemble_timing.step_seconds(bench.settings.members, net=SMALL_NET, device=bench.device)
    for size in bench.settings.members:
        together, products = (tuple(seconds[way, size]) for way in ("ensemble", "products"))
        alone = tuple(size * step for step in seconds[ensemble_timing.ALONE])
        bench.add_ratio("members_ratio", Comparison(alone, together), members=size)
        bench.add_ratio("over_products", Comparison(together, products), members=size)
        bench.add("members_step", median(together), members=size)


def one_after_another(bench: Bench) -> None:
    """Runs one after another in a process: the rollout buffers in memory during each, as released and with a garbage
    collection after each run."""
    for way, collect in (("released", False), ("collected", True)):
        counts = parent(bench).run(sequential.buffers_in_memory, *bench.settings.sequential, collect)
        for run, (buffers, buffer_bytes) in enumerate(counts, start=1):
            bench.add("buffers", buffers, way=way, run=run)
            bench.add("buffer_bytes", buffer_bytes, way=way, run=run)


def _add(bench: Bench, measured: dict, **setting) -> None:
    """Add a record for each quantity that a launch has measured."""
    for quantity in LAUNCHED:
        if quantity.name in measured:
            samples = measured["samples"].get(quantity.name)
            bench.add(quantity.name, measured[quantity.name], samples=samples, **setting)
