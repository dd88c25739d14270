"""Lab of chapter 4: `my_train_many(train, configs)`, the results of all runs, in the order of their configs."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from rlrepro.cases.parallel_training import SB3
from rlrepro.course.labs.core import Trial, WrongResult
from rlrepro.fixes import thread_budget, train_many
from rlrepro.lab import Release
from rlrepro.lab.limits import TRAINING_SECONDS, waiting_for

STEPS, WIDTH, BATCH, TURNS = 60, 512, 64, 2  # of a run: gradient steps, layer width, batch size; turns
SWEEP = {}  # in a fork: what it calls
STILL = "How many runs compute at once, and with how many threads each?"


def trial(answer) -> Trial:
    configs = [{"seed": seed} for seed in range(max(4, thread_budget(1)))]
    sweeps = {"released": in_a_pool, "yours": answer, "ours": ours}
    costs = {variant: [] for variant in sweeps}
    with Release(f"stable-baselines3=={SB3}") as process:
        expected = process.run(in_a_fork, one_by_one, configs)
        for _ in range(TURNS):
            for variant, run_all in sweeps.items():
                results = process.run(in_a_fork, run_all, configs)
                if variant == "yours":
                    _compare(results, expected)
                costs[variant].append(max(run["ended"] for run in results) - min(run["began"] for run in results))
    return Trial(costs, "s", f"from the beginning of the first to the end of the last of {len(configs)} runs", 1.6)


def train(seed: int) -> dict:
    """A run of gradient steps: its last loss, and when it began and ended."""
    import torch

    began = time.time()
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))
    inputs = torch.randn(BATCH, WIDTH)
    for _ in range(STEPS):
        net.zero_grad()
        loss = (net(inputs) - inputs).square().mean()
        loss.backward()
        with torch.no_grad():
            for weight in net.parameters():
                weight -= 0.1 * weight.grad
    return {"seed": seed, "loss": loss.item(), "began": began, "ended": time.time()}


def in_a_pool(train, configs) -> list[dict]:
    """A process for each run, each with the threads that torch takes by default."""
    with multiprocessing.get_context("fork").Pool(len(configs)) as pool:
        runs = [pool.apply_async(train, kwds=config) for config in configs]
        with waiting_for("training runs in a pool", TRAINING_SECONDS) as timeout:
            return [run.get(timeout) for run in runs]


def ours(train, configs) -> list[dict]:
    return [outcome.value for outcome in train_many(train, configs, progress=False, on_error="raise")]


def one_by_one(train, configs) -> list[dict]:
    return [train(**config) for config in configs]


def in_a_fork(run_all, configs) -> list[dict]:
    """Call it in a fork of this process, which only imports torch: once torch has computed, a process must not fork."""
    import torch  # noqa: F401

    arguments = {"call": partial(run_all, train, configs)}  # inherited: what a notebook defines can't be pickled
    fork = ProcessPoolExecutor(1, multiprocessing.get_context("fork"), SWEEP.update, (arguments,))
    with fork, waiting_for("a sweep", TRAINING_SECONDS) as timeout:
        return fork.submit(_sweep).result(timeout)


def _sweep() -> list[dict]:
    return SWEEP["call"]()


def _compare(results, expected) -> None:
    seeds = [run.get("seed") for run in results]
    if seeds != [run["seed"] for run in expected]:
        raise WrongResult(f"Expected one result for each config, in their order; found those of the seeds {seeds}.")
    if not np.allclose([run["loss"] for run in results], [run["loss"] for run in expected], rtol=1e-3):
        raise WrongResult("The losses are not those of the same runs, one by one.")
