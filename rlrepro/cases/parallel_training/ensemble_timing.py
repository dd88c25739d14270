"""Gradient steps of ensembles of growing size, beside those of one learner of Stable-Baselines3."""

import time
from collections.abc import Callable
from contextlib import contextmanager

import torch

from rlrepro.lab.timing import synchronizer

STEPS = 64  # of each member's rollout, which is one minibatch
EPOCHS = 20  # gradient steps in one timing
ALONE = 0  # the size that stands for Stable-Baselines3's own learner


def step_seconds(sizes: tuple[int, ...], *, net: int, device: str = "cpu", rounds: int = 5) -> dict[int, list[float]]:
    """Seconds of one gradient step of all members together, with one thread: `rounds` times in turn, for ensembles of
    these sizes on Pendulum-v1 and, as `ALONE`, for one learner of Stable-Baselines3. `net` is the width of both hidden
    layers."""
    with _one_thread():
        updates = {ALONE: _alone(net, device)} | {size: _together(size, net, device) for size in sizes}
        seconds = {size: [] for size in updates}
        for turn in range(-1, rounds):  # the first warms up
            for size, update in updates.items():
                per_step = _seconds(update, device) / EPOCHS
                if turn >= 0:
                    seconds[size].append(per_step)
    return seconds


@contextmanager
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _alone(net: int, device: str) -> Callable[[], None]:
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "Pendulum-v1", **_sizes(net, device), seed=0).learn(STEPS)
    return model.train  # again, on the rollout that is in its buffer


def _together(size: int, net: int, device: str) -> Callable[[], None]:
    from rlrepro.fixes import EnsemblePPO

    ensemble = EnsemblePPO("Pendulum-v1", seeds=range(size), vectorization="sync", **_sizes(net, device))
    rollout = ensemble.collect()
    ensemble.close()
    return lambda: ensemble.update(rollout)


def _sizes(net: int, device: str) -> dict:
    return {
        "n_steps": STEPS,
        "batch_size": STEPS,
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
