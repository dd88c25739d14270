"""Gradient steps of ensembles of growing size, beside those of one learner of Stable-Baselines3."""

import time
from collections.abc import Callable

from rlrepro.lab.timing import synchronizer

ROWS = 64  # of a minibatch, and of each member's rollout
EPOCHS = 20  # gradient steps in one timing
ALONE = 0  # the size that stands for Stable-Baselines3's own learner


def step_seconds(sizes: tuple[int, ...], *, net: int, device: str = "cpu", rounds: int = 5) -> dict[int, list[float]]:
    """Seconds of one gradient step of all members together, `rounds` times in turn, for ensembles of these sizes on
    Pendulum-v1 and, as `ALONE`, for one learner of Stable-Baselines3. `net` is the width of both hidden layers."""
    calls = {ALONE: _alone(net, device)} | {size: _together(size, net, device) for size in sizes}
    seconds = {size: [] for size in calls}
    for turn in range(-1, rounds):
        for size, call in calls.items():
            taken = _seconds(call, device) / EPOCHS
            if turn >= 0:
                seconds[size].append(taken)
    return seconds


def _alone(net: int, device: str) -> Callable[[], None]:
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "Pendulum-v1", **_sizes(net, device), seed=0).learn(ROWS)
    return model.train  # again, on the rows of the rollout that is there


def _together(size: int, net: int, device: str) -> Callable[[], None]:
    from rlrepro.fixes import EnsemblePPO

    learners = EnsemblePPO("Pendulum-v1", seeds=range(size), vectorization="sync", **_sizes(net, device))
    rollout = learners.collect()
    learners.close()
    return lambda: learners.update(rollout)


def _sizes(net: int, device: str) -> dict:
    return {
        "n_steps": ROWS,
        "batch_size": ROWS,
        "n_epochs": EPOCHS,
        "policy_kwargs": {"net_arch": [net, net]},
        "device": device,
    }


def _seconds(call: Callable[[], None], device: str) -> float:
    synchronize = synchronizer(device)
    synchronize()
    start = time.perf_counter()
    call()
    synchronize()
    return time.perf_counter() - start
