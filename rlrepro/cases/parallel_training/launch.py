"""The ways to start many trainings at once. Each is run in a fresh process, in the environment of a Release:

Release("stable-baselines3==2.9.2", environment={"OMP_WAIT_POLICY": "PASSIVE"}).run(pool, trainings)

They take settings of `training.train` and return the mean over the trainings of what that returns, and `span`, the
seconds from the first beginning to the last end.
"""

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import joblib
import numpy as np
from joblib.externals.loky import get_reusable_executor

from rlrepro.cases.parallel_training import training
from rlrepro.cases.parallel_training.thread_sampler import Watch
from rlrepro.fixes import thread_budget, train_many
from rlrepro.lab.limits import END_SECONDS, TRAINING_SECONDS, waiting_for

PATIENCE = 1.5  # seconds


def pool(trainings: list[dict], method: str = "fork", task: str = "train") -> dict:
    """All at once in a multiprocessing.Pool, whose processes are started by this method."""
    context = multiprocessing.get_context(method)
    if method == "fork":
        training.load()
    if method == "forkserver":
        context.set_forkserver_preload([*training.NEEDED, training.__name__])
    with _together(trainings) as (together, folder), context.Pool(len(trainings)) as workers:
        calls = [workers.apply_async(getattr(training, task), kwds=each) for each in together]
        answers = waiting_for("a Pool of training runs", TRAINING_SECONDS)  # it never answers for a killed worker
        with Watch(folder, len(trainings)) as watch, answers as allowed:
            found = [call.get(allowed) for call in calls]
    return summary(found) | watch.seen


def scripts(trainings: list[dict]) -> dict:
    """All at once as scripts of their own, which share nothing."""
    command = [sys.executable, "-m", training.__name__]

    def run(settings):
        with waiting_for("a training script", TRAINING_SECONDS) as allowed:
            done = subprocess.run([*command, json.dumps(settings)], capture_output=True, text=True, timeout=allowed)
        if done.returncode:
            raise RuntimeError(f"a training failed:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    with _together(trainings) as (together, _), ThreadPoolExecutor(len(trainings)) as threads:
        return summary(list(threads.map(run, together)))


def loky(trainings: list[dict]) -> dict:
    """All at once by joblib, in its loky processes, which are left for the next call."""
    tasks = waiting_for("a training run by joblib", TRAINING_SECONDS)
    with _together(trainings) as (together, _), tasks as allowed:
        parallel = joblib.Parallel(len(trainings), timeout=allowed)
        return summary(parallel(joblib.delayed(training.train)(**each) for each in together))


def ray_tasks(trainings: list[dict]) -> dict:
    """All at once as tasks of a local Ray with as many CPUs as there are trainings, which is left for the next call."""
    import ray

    if not ray.is_initialized():
        ray.init(num_cpus=len(trainings), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    task = ray.remote(training.train)
    tasks = waiting_for("training runs as tasks of Ray", TRAINING_SECONDS)
    with _together(trainings) as (together, _), tasks as allowed:
        return summary(ray.get([task.remote(**each) for each in together], timeout=allowed))


def end(way: str) -> None:
    """End what `loky` or `ray_tasks` has left."""
    if way == "ray":
        import ray

        ray.shutdown()
    else:
        get_reusable_executor().shutdown(kill_workers=True)


def many(trainings: list[dict]) -> dict:
    """As many at a time as there are cores, by train_many; also `wall`, the seconds of the call, and `work`, the sum of
    those of its trainings."""
    start = time.perf_counter()
    with _together(trainings, min(len(trainings), thread_budget(1))) as (together, _):
        outcomes = train_many(training.train, together, progress=False, on_error="raise")
    wall = time.perf_counter() - start
    found = summary([outcome.value for outcome in outcomes])
    return found | {"wall": wall, "work": sum(outcome.seconds for outcome in outcomes)}


def ensemble(seeds: range, *, net: int, steps: int, epochs: int) -> dict:
    """All in this process as one EnsemblePPO, on Pendulum-v1: seconds of the rollout, of the update, and of all."""
    from rlrepro.fixes import EnsemblePPO

    start = time.perf_counter()
    learners = EnsemblePPO(
        "Pendulum-v1", seeds=seeds, n_steps=steps, n_epochs=epochs, policy_kwargs={"net_arch": [net, net]}
    )
    made = time.perf_counter()
    rollout = learners.collect()
    collected = time.perf_counter()
    learners.update(rollout)
    ended = time.perf_counter()
    learners.close()
    return {"rollout": collected - made, "train": ended - collected, "seconds": ended - start}


def fork_after_work() -> bool:
    """Whether a forked child still waits after PATIENCE seconds for what its parent has computed in a moment, with
    torch's own threads."""
    import torch

    def work() -> None:
        matrix = torch.ones(1024, 1024)
        matrix @ matrix

    work()
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(PATIENCE)
    waits = child.is_alive()
    child.kill()
    child.join(END_SECONDS)
    return waits


def typical(runs: list[dict]) -> dict:
    """The median of each quantity over the runs."""
    return {name: float(np.median([run[name] for run in runs])) for name in runs[0]}


def summary(found: list[dict]) -> dict:
    """What each training returned, as its mean, and the seconds from the first beginning to the last end. Of a GPU what
    was held while the most of them ran."""
    span = max(each["ended"] for each in found) - min(each["began"] for each in found)
    lists = {name: [each[name] for each in found] for name in found[0] if name not in ("began", "ended")}
    means = {name: float(np.mean(values)) for name, values in lists.items()}
    held = {"device_bytes": max(lists["device_bytes"])} if "device_bytes" in lists else {}
    return means | held | {"span": span}


@contextmanager
def _together(trainings: list[dict], processes: int | None = None):
    """The trainings told to wait until so many processes are ready (None: one for each), so that starting them does not
    count, and the folder where they wait."""
    with tempfile.TemporaryDirectory() as folder:
        yield [{**each, "ready": folder, "together": processes or len(trainings)} for each in trainings], folder
