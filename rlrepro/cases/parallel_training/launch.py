"""The ways to start many training runs. Each is called in a fresh process, in the environment of a Release:

Release("stable-baselines3==2.9.2", environment={"OMP_WAIT_POLICY": "PASSIVE"}).run(pool, configs)

They take a list of settings of `training.train`, and return the mean over the runs of what that returns; `span`, the
seconds from the first beginning to the last end; and `samples`. No run begins before all processes are ready.
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
FORKED_SECONDS = 1.5  # many times what a forked child needs that does not wait for ever

barrier = partial(tempfile.TemporaryDirectory, prefix="barrier-")  # where processes wait for each other


def pool(configs: list[dict], method: str = "fork", task: str = "train", processes: int | None = None) -> dict:
    """In a multiprocessing.Pool whose processes are started by this method: so many of them, or one for each run."""
    processes = processes or len(configs)
    context = multiprocessing.get_context(method)
    if method == "fork":
        training.load()
    if method == "forkserver":
        context.set_forkserver_preload([*training.NEEDED, training.__name__])
    with barrier() as folder, context.Pool(processes) as workers:
        waiting = [each | {"barrier": folder, "marks": processes} for each in configs]
        calls = [workers.apply_async(getattr(training, task), kwds=each) for each in waiting]
        answers = waiting_for("a Pool of training runs", TRAINING_SECONDS)  # it never answers for a killed worker
        with ThreadSampler(folder, processes) as sampler, answers as allowed:
            results = [call.get(allowed) for call in calls]
    return summary(results) | sampler.result


def scripts(configs: list[dict]) -> tuple[dict, dict]:
    """Each in a script of its own, which share nothing: the first run alone, and then all at once."""
    command = [sys.executable, "-m", training.__name__]

    def run(settings: list[dict]) -> list[dict]:
        with waiting_for("a training script", TRAINING_SECONDS) as allowed:
            done = subprocess.run([*command, json.dumps(settings)], capture_output=True, text=True, timeout=allowed)
        if done.returncode:
            raise RuntimeError(f"a training run failed:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    with barrier() as folder, ThreadPoolExecutor(len(configs)) as threads:
        alone = configs[0] | {"barrier": folder, "marks": len(configs)}
        first, *others = ([each | {"barrier": folder, "marks": len(configs) + 1}] for each in configs)
        (by_itself, *_), *_ = results = list(threads.map(run, [[alone, *first], *others]))
    return summary([by_itself]), summary([each[-1] for each in results])


def loky(configs: list[dict]) -> dict:
    """All at once by joblib, in its loky processes, which are left for the next call."""
    tasks = waiting_for("a training run by joblib", TRAINING_SECONDS)
    with barrier() as folder, tasks as allowed:
        run, marks = joblib.delayed(training.train), len(configs)
        parallel = joblib.Parallel(len(configs), timeout=allowed)
        return summary(parallel(run(**each, barrier=folder, marks=marks) for each in configs))


def ray_tasks(configs: list[dict]) -> dict:
    """All at once as tasks of a local Ray with as many CPUs as there are runs, which is left for the next call."""
    import ray

    if not ray.is_initialized():
        ray.init(num_cpus=len(configs), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    task = ray.remote(training.train)
    tasks = waiting_for("training runs as tasks of Ray", TRAINING_SECONDS)
    with barrier() as folder, tasks as allowed:
        running = [task.remote(**each, barrier=folder, marks=len(configs)) for each in configs]
        return summary(ray.get(running, timeout=allowed))


def end(way: str) -> None:
    """End what `loky` or `ray_tasks` has left."""
    if way == "ray":
        import ray

        ray.shutdown()
    else:
        get_reusable_executor().shutdown(kill_workers=True)


def many(configs: list[dict]) -> dict:
    """By train_many, as many at a time as there are cores; also `wall`, the seconds of the call, and `work`, the sum of
    the seconds that its outcomes report."""
    processes = min(len(configs), thread_budget(1))
    start = time.time()
    with barrier() as folder:
        waiting = [each | {"barrier": folder, "marks": processes} for each in configs]
        outcomes = train_many(training.train, waiting, progress=False, on_error="raise")
    wall = time.time() - start
    measured = summary([outcome.value for outcome in outcomes])
    work = sum(outcome.seconds for outcome in outcomes)
    return measured | {"wall": wall, "work": work, "parts": _parts(outcomes, start, processes)}


def _parts(outcomes: list, start: float, processes: int) -> list[tuple[int, float, float]]:
    """The call in up to PARTS parts, each from the end of some run to that of another: runs that ended in it, its
    seconds, and the seconds of those runs."""
    in_order = sorted(outcomes, key=lambda outcome: outcome.value["ended"])
    size = max(processes, math.ceil(len(in_order) / PARTS))
    parts, begin = [], start
    for at in range(0, len(in_order) - size + 1, size):
        ended = in_order[at : at + size]
        end = ended[-1].value["ended"]
        parts.append((size, end - begin, sum(outcome.seconds for outcome in ended)))
        begin = end
    return parts


def ensemble(seeds: range, *, net: int, steps: int, epochs: int) -> dict:
    """All in this process as one EnsemblePPO, on Pendulum-v1: seconds of the rollout, of the update, and of the whole
    run with making the ensemble."""
    from rlrepro.fixes import EnsemblePPO

    start = time.perf_counter()
    sizes = {"n_steps": steps, "n_epochs": epochs, "policy_kwargs": {"net_arch": [net, net]}}
    learners = EnsemblePPO("Pendulum-v1", seeds=seeds, vectorization="sync", **sizes)
    made = time.perf_counter()
    rollout = learners.collect()
    collected = time.perf_counter()
    learners.update(rollout)
    ended = time.perf_counter()
    learners.close()
    return {"rollout": collected - made, "train": ended - collected, "seconds": ended - start}


def fork_after_work() -> bool:
    """Whether the child that a process forks after it has computed with torch's own threads still waits after
    FORKED_SECONDS for what its parent has computed in a moment. That process is itself forked, so that the one that
    calls this stays fit to fork others."""
    answer = waiting_for("a process that forks another", TRAINING_SECONDS)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as fresh, answer as allowed:
        return fresh.submit(_fork_after_work).result(allowed)


def _fork_after_work() -> bool:
    import torch

    def work() -> None:
        matrix = torch.ones(1024, 1024)
        matrix @ matrix

    work()
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(FORKED_SECONDS)
    waits = child.is_alive()
    child.kill()
    child.join(END_SECONDS)
    return waits


def typical(runs: list[dict]) -> dict:
    """The median of each quantity over the runs, and as `samples` what it was in each."""
    samples = {name: [run[name] for run in runs] for name in runs[0] if name != "samples"}
    return {name: float(np.median(values)) for name, values in samples.items()} | {"samples": samples}


def pooled(launches: list[dict]) -> dict:
    """Several launches of the same as one: the mean of each quantity, and the samples of all."""
    means = {name: float(np.mean([each[name] for each in launches])) for name in launches[0] if name != "samples"}
    lists = {name: [x for each in launches for x in each["samples"][name]] for name in launches[0]["samples"]}
    return means | {"samples": lists}


def summary(results: list[dict]) -> dict:
    """The mean of each quantity over the runs, `span`, and as `samples` the quantities of each run. For `device_bytes`,
    the most that was held at any time."""
    span = max(each["ended"] for each in results) - min(each["began"] for each in results)
    lists = {name: [each[name] for each in results] for name in results[0] if name not in ("began", "ended")}
    means = {name: float(np.mean(values)) for name, values in lists.items()}
    held = {"device_bytes": max(lists["device_bytes"])} if "device_bytes" in lists else {}
    return means | held | {"span": span, "samples": lists}
