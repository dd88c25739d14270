"""What runs in the process of a release. Environments are forked, which starts them quickly."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

from rlrepro.lab.limits import TRAINING_SECONDS, waiting_for

WARM_UP = 20  # steps; more than PatientParallelEnv needs to measure how long waking up takes
_shared = {}  # what a forked run inherits from the process that forked it


def open_env(workers: int, seconds: float, wait="theirs"):
    """A ParallelEnv of `FixedTime` environments, reset; "ours" is PatientParallelEnv; any callable is used instead."""
    import torch
    from torchrl.envs import ParallelEnv

    from rlrepro.cases.parallel_env.fixed_time import FixedTime

    if wait == "ours":
        from rlrepro.fixes import PatientParallelEnv as ParallelEnv
    elif callable(wait):
        ParallelEnv = wait
    torch.set_num_threads(1)
    env = ParallelEnv(workers, partial(FixedTime, seconds), mp_start_method="fork")
    env.reset()
    return env


def step_times(waits: list[str], workers: int, seconds: float, blocks: int, block_seconds: float) -> dict:
    """For each way to wait: `step`, wall seconds of a step in each block, and `cpu`, how many cores the parent kept
    busy in it, apart from when it waited for one. The ways to wait take turns. For "ours" also `wake_up`, the seconds
    that waking up takes here."""
    envs = {wait: open_env(workers, seconds, wait) for wait in waits}
    actions = {wait: env.rand_action() for wait, env in envs.items()}
    count = max(3, round(block_seconds / (seconds + _overhead(envs[waits[0]], actions[waits[0]], seconds))))
    measured = {wait: {"step": [], "cpu": []} for wait in waits}
    for wait in waits:
        _steps(envs[wait], actions[wait], WARM_UP)
    for block in range(blocks):
        for wait in waits if block % 2 == 0 else waits[::-1]:
            before, wall = seconds_on_core(), time.perf_counter()
            _steps(envs[wait], actions[wait], count)
            wall = time.perf_counter() - wall
            ran, waited = (end - start for end, start in zip(seconds_on_core(), before, strict=True))
            measured[wait]["step"].append(wall / count)
            measured[wait]["cpu"].append(ran / (wall - waited))
    if "ours" in envs:
        measured["ours"]["wake_up"] = median(envs["ours"]._shm_done_flags.latencies)
    for env in envs.values():
        env.close()
    return measured


def seconds_on_core() -> tuple[float, float]:
    """Seconds that this thread has been on a core, and that it has waited for a busy one (0 where the system does not
    count that)."""
    try:
        ran, waited, _ = map(int, Path("/proc/thread-self/schedstat").read_text().split())
    except (OSError, ValueError):
        ran = waited = 0
    return (ran / 1e9, waited / 1e9) if ran else (time.thread_time(), 0.0)


def side_by_side(runs: int, waits: list[str], turns: int, *settings) -> dict[str, list[float]]:
    """Steps per second of `runs` calls of `train_in_turns(waits, turns, *settings)` at once, all together, in each turn
    of each way to wait. The processes are forked, and begin each turn when all are ready."""
    context = multiprocessing.get_context("fork")
    barrier, deadline = context.Barrier(runs), waiting_for("training runs side by side", TRAINING_SECONDS)
    options = {"mp_context": context, "initializer": _share, "initargs": (barrier,)}
    with ProcessPoolExecutor(runs, **options) as processes, deadline as timeout:
        futures = [processes.submit(train_in_turns, waits, turns, *settings) for _ in range(runs)]
        results = [future.result(timeout) for future in futures]
    return {wait: [sum(turn) for turn in zip(*(rates[wait] for rates in results), strict=True)] for wait in waits}


def train_in_turns(
    waits: list[str], turns: int, workers: int, seconds: float, duration: float
) -> dict[str, list[float]]:
    """Steps per second of training runs in `workers` environments, by the way to wait."""
    envs = {wait: open_env(workers, seconds, wait) for wait in waits}
    rates = {wait: [] for wait in waits}
    for _ in range(turns):
        for wait, env in envs.items():
            rates[wait].append(training(env, duration))
    for env in envs.values():
        env.close()
    return rates


def training(env, duration: float) -> float:
    """Steps per second of a training run: a policy of 64 units acts, and takes a gradient step every 8 steps."""
    import torch
    from torch import nn

    policy = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer, state, steps = torch.optim.Adam(policy.parameters()), env.reset(), 0
    _steps(env, env.rand_action(), WARM_UP)
    _shared["barrier"].wait(TRAINING_SECONDS)
    start = time.perf_counter()
    while time.perf_counter() - start < duration:
        action = policy(state["observation"])
        state = env.step_mdp(env.step(state.set("action", action.detach())))
        steps += 1
        if steps % 8 == 0:
            optimizer.zero_grad()
            action.square().mean().backward()
            optimizer.step()
    return steps / (time.perf_counter() - start)


def _share(barrier) -> None:
    _shared["barrier"] = barrier


def steps_late(wait) -> int:
    """How many steps the transitions after `load_state_dict` lag behind a state that counts ten steps. Each step takes
    long enough to reveal a parent that does not wait for it."""
    env = open_env(2, 0.05, wait)
    _steps(env, env.rand_action(), 1)
    env.load_state_dict({"worker0": {"steps": 10}, "worker1": {"steps": 10}})
    counts = [int(env.step(env.rand_action())["next", "observation"].max()) for _ in range(3)]
    env.close()
    return 13 - counts[-1]


def _steps(env, action, count: int) -> None:
    for _ in range(count):
        env.step(action)


def _overhead(env, action, seconds: float) -> float:
    """Seconds of a step on top of those of the environment."""
    start = time.perf_counter()
    _steps(env, action, 5)
    return max(0.0, (time.perf_counter() - start) / 5 - seconds)
