"""The ways to start many training runs. Each is called in a fresh process, in the environment of a Release:

Release("stable-baselines3==2.9.2", environment={"OMP_WAIT_POLICY": "PASSIVE"}).run(pool, configs)

They take a list of settings of `training.train`. They return the mean over the runs of what it returns; `span`, the
seconds from the first start to the last end; and `samples`. No run begins before all processes are ready.
"""

import json
import math
import multiprocessing
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import joblib
import numpy as np
from joblib.externals.loky import get_reusable_executor

from rlrepro.cases.parallel_training import training
from rlrepro.cases.parallel_training.thread_sampler import ThreadSampler
from rlrepro.fixes import thread_budget, train_many
from rlrepro.lab.limits import END_SECONDS, TRAINING_SECONDS, waiting_for

PARTS = 10  # of a long call, each a measurement of its own
FORKED_SECONDS = 1.5  # many times what a forked child needs if it does not hang

barrier = partial(tempfile.TemporaryDirectory, prefix="barrier-")  # where processes wait for each other


def pool(configs: list[dict], method: str = "fork", task: str = "train", processes: int | None = None) -> dict:
    """In a multiprocessing.Pool of `processes` workers, or of one for each run, started by this method."""
    processes = processes or len(configs)
    context = multiprocessing.get_context(method)
    if method == "fork":
        training.load()
    if method == "forkserver":
        context.set_forkserver_preload([*training.IMPORTS, training.__name__])
    with barrier() as folder, context.Pool(processes) as workers:
        arguments = [config | {"barrier": folder, "marks": processes} for config in configs]
        calls = [workers.apply_async(getattr(training, task), kwds=options) for options in arguments]
        deadline = waiting_for("a Pool of training runs", TRAINING_SECONDS)  # a Pool hangs if a worker is killed
        with ThreadSampler(folder, processes) as sampler, deadline as timeout:
            results = [call.get(timeout) for call in calls]
    return summary(results) | sampler.result


def scripts(configs: list[dict]) -> tuple[dict, dict]:
    """Each in a script of its own; scripts share nothing. First one run alone, then all at once."""
    command = [sys.executable, "-m", training.__name__]

    def run(settings: list[dict]) -> list[dict]:
        with waiting_for("a training script", TRAINING_SECONDS) as timeout:
            result = subprocess.run([*command, json.dumps(settings)], capture_output=True, text=True, timeout=timeout)
        if result.returncode:
            raise RuntimeError(f"a training run failed:\n{result.stderr}")
        return json.loads(result.stdout.splitlines()[-1])

    with barrier() as folder, ThreadPoolExecutor(len(configs)) as threads:
        alone_config = configs[0] | {"barrier": folder, "marks": len(configs)}
        first, *others = ([config | {"barrier": folder, "marks": len(configs) + 1}] for config in configs)
        (alone_result, *_), *_ = results = list(threads.map(run, [[alone_config, *first], *others]))
    return summary([alone_result]), summary([runs[-1] for runs in results])


def loky(configs: list[dict]) -> dict:
    """All at once by joblib, in its loky processes, which stay alive for the next call."""
    deadline = waiting_for("a training run by joblib", TRAINING_SECONDS)
    with barrier() as folder, deadline as timeout:
        run, marks = joblib.delayed(training.train), len(configs)
        parallel = joblib.Parallel(len(configs), timeout=timeout)
        return summary(parallel(run(**config, barrier=folder, marks=marks) for config in configs))


def ray_tasks(configs: list[dict]) -> dict:
    """All at once as tasks of a local Ray with one CPU per run, which stays alive for the next call."""
    import ray

    if not ray.is_initialized():
        options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        ray.init(address="local", num_cpus=len(configs), **options)
    task = ray.remote(training.train)
    deadline = waiting_for("training runs as tasks of Ray", TRAINING_SECONDS)
    with barrier() as folder, deadline as timeout:
        running = [task.remote(**config, barrier=folder, marks=len(configs)) for config in configs]
        return summary(ray.get(running, timeout=timeout))


def end(way: str) -> None:
    """End the processes that `loky` or `ray_tasks` has left alive."""
    if way == "ray":
        import ray

        ray.shutdown()
    else:
        get_reusable_executor().shutdown(kill_workers=True)


def many(configs: list[dict]) -> dict:
    """By train_many, as many at a time as there are cores. Also returns `wall`, the seconds of the call; `work`, the
    sum of the seconds that its outcomes report; and `parts`."""
    processes = min(len(configs), thread_budget(1))
    start = time.time()
    with barrier() as folder:
        arguments = [config | {"barrier": folder, "marks": processes} for config in configs]
        outcomes = train_many(training.train, arguments, progress=False, on_error="raise")
    wall = time.time() - start
    measured = summary([outcome.value for outcome in outcomes])
    work = sum(outcome.seconds for outcome in outcomes)
    return measured | {"wall": wall, "work": work, "parts": _parts(outcomes, start, processes)}


def _parts(outcomes: list, start: float, processes: int) -> list[tuple[int, float, float]]:
    """The call in up to PARTS parts, each from the end of one run to the end of another: how many runs ended in it, its
    seconds, and the seconds of those runs."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.value["ended"])
    size = max(processes, math.ceil(len(ordered) / PARTS))
    parts, part_start = [], start
    for index in range(0, len(ordered) - size + 1, size):
        part = ordered[index : index + size]
        part_end = part[-1].value["ended"]
        parts.append((size, part_end - part_start, sum(outcome.seconds for outcome in part)))
        part_start = part_end
    return parts


def ensemble(seeds: range, *, net: int, steps: int, epochs: int) -> dict:
    """All in this process as one EnsemblePPO, on Pendulum-v1: seconds of the rollout, of the update, and of the whole
    run including making the ensemble."""
    from rlrepro.fixes import EnsemblePPO

    start = time.perf_counter()
    sizes = {"n_steps": steps, "n_epochs": epochs, "policy_kwargs": {"net_arch": [net, net]}}
    model = EnsemblePPO("Pendulum-v1", seeds=seeds, vectorization="sync", **sizes)
    created = time.perf_counter()
    rollout = model.collect()
    collected = time.perf_counter()
    model.update(rollout)
    updated = time.perf_counter()
    model.close()
    return {"rollout": collected - created, "train": updated - collected, "seconds": updated - start}


def fork_after_work() -> bool:
    """Whether a child, forked by a process that has computed with torch's own threads, still waits after FORKED_SECONDS
    for a result that its parent computed in a moment. The parent is itself a fork of the calling process, which can
    therefore still fork others."""
    deadline = waiting_for("a process that forks another", TRAINING_SECONDS)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor, deadline as timeout:
        return executor.submit(_fork_after_work).result(timeout)


def _fork_after_work() -> bool:
    import torch

    def work() -> None:
        matrix = torch.ones(1024, 1024)
        matrix @ matrix

    work()
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(FORKED_SECONDS)
    still_waiting = child.is_alive()
    child.kill()
    child.join(END_SECONDS)
    return still_waiting


def typical(runs: list[dict]) -> dict:
    """The median of each quantity over the runs, and as `samples` its value in each."""
    samples = {name: [run[name] for run in runs] for name in runs[0] if name != "samples"}
    return {name: float(np.median(values)) for name, values in samples.items()} | {"samples": samples}


def pooled(launches: list[dict]) -> dict:
    """Several launches of the same runs as one: the mean of each quantity, and the samples of all."""
    means = {name: float(np.mean([run[name] for run in launches])) for name in launches[0] if name != "samples"}
    samples = {name: [x for run in launches for x in run["samples"][name]] for name in launches[0]["samples"]}
    return means | {"samples": samples}


def summary(results: list[dict]) -> dict:
    """The mean of each quantity over the runs, `span`, and as `samples` the quantities of each run. `device_bytes` is
    the most that was held at any time."""
    span = max(result["ended"] for result in results) - min(result["began"] for result in results)
    samples = {name: [result[name] for result in results] for name in results[0] if name not in ("began", "ended")}
    means = {name: float(np.mean(values)) for name, values in samples.items()}
    device_bytes = {"device_bytes": max(samples["device_bytes"])} if "device_bytes" in samples else {}
    return means | device_bytes | {"span": span, "samples": samples}
