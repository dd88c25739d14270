"""Times gradient steps of ensembles of growing size, those of one learner of Stable-Baselines3, and the matrix products
that every step needs."""

import time
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise

import torch

from rlrepro.lab.timing import synchronizer

STEPS = 64  # of each member's rollout, which is one minibatch
EPOCHS = 20  # gradient steps in one timing
ALONE = "alone", 1


def step_seconds(sizes: tuple[int, ...], *, net: int, device: str = "cpu", rounds: int = 5) -> dict[tuple, list[float]]:
    """Seconds of one gradient step of all members together, with one thread: `rounds` timings each, in turn. Keys are
    ("ensemble", size) for ensembles of these sizes on Pendulum-v1, ("products", size) for their matrix products, and
    `ALONE` for one learner of Stable-Baselines3. `net` is the width of both hidden layers."""
    with _one_thread():
        updates = {ALONE: _single_update(net, device)}
        updates |= {("ensemble", size): _ensemble_update(size, net, device) for size in sizes}
        updates |= {("products", size): _matrix_products(size, net, device) for size in sizes}
        seconds = {key: [] for key in updates}
        for turn in range(-1, rounds):  # the first warms up
            for key, update in updates.items():
                per_step = _seconds(update, device) / EPOCHS
                if turn >= 0:
                    seconds[key].append(per_step)
    return seconds


@contextmanager
def _one_thread():
    previous = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(previous)


def _single_update(net: int, device: str) -> Callable[[], None]:
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "Pendulum-v1", **_sizes(net, device), seed=0).learn(STEPS)
    return model.train  # trains again on the rollout in its buffer


def _ensemble_update(size: int, net: int, device: str) -> Callable[[], None]:
    from rlrepro.fixes import EnsemblePPO

    ensemble = EnsemblePPO("Pendulum-v1", seeds=range(size), vectorization="sync", **_sizes(net, device))
    rollout = ensemble.collect()
    ensemble.close()
    return lambda: ensemble.update(rollout)


def _matrix_products(size: int, net: int, device: str) -> Callable[[], None]:
    """The matrix products of an update, forward and backward, on random numbers: all that is left of an update if
    everything else takes no time."""
    layers = [  # from Pendulum's observation to the one output of the actor, and of the critic
        [torch.randn(size, *shape, device=device) for shape in ((STEPS, inputs), (outputs, inputs), (STEPS, outputs))]
        for inputs, outputs in pairwise((3, net, net, 1))
    ]

    def update():
        for _ in range(2 * EPOCHS):
            for index, (x, weight, gradient) in enumerate(layers):
                torch.bmm(x, weight.mT)
                torch.bmm(gradient.mT, x)
                if index:  # the observations need no gradient
                    torch.bmm(gradient, weight)

    return update


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
