"""Problems that no other chapter measures: each rule's slow way timed against its fix, in turns."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, TensorDataset

from rlrepro.lab import compare, peak_memory

ROLLOUT, MINIBATCH = 4096, 64  # timesteps


@dataclass(frozen=True)
class Cost:
    """How many times longer, or larger, the slow way is; `low` and `high` are quantiles of the paired ratios."""

    rule: str
    what: str
    ratio: float
    low: float
    high: float


def compare_costs(repeats: int) -> Iterator[Cost]:
    """The costs, from so many pairs of timings each. Let nothing else run meanwhile."""
    for rule, (what, make_pair) in PAIRS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of the slow ways
            comparison = compare(*make_pair(), repeats=repeats)
        yield Cost(rule, what, comparison.ratio, comparison.low, comparison.high)
    ratio = _peak_of_a_step(ROLLOUT) / _peak_of_a_step(MINIBATCH)
    yield Cost("RO002", f"memory of a gradient step on {ROLLOUT:,} timesteps against {MINIBATCH}", ratio, ratio, ratio)


def _stacks_of_frames() -> tuple[Callable, Callable]:
    states = [np.random.randint(0, 256, (4, 84, 84), dtype=np.uint8) for _ in range(32)]
    return lambda: torch.tensor(states), lambda: torch.tensor(np.array(states))


def _anomaly() -> tuple[Callable, Callable]:
    network, batch = _network(), torch.randn(MINIBATCH, 17)

    def step(mode: bool):
        with torch.autograd.set_detect_anomaly(mode, check_nan=mode):
            network(batch).square().mean().backward()

    return lambda: step(True), lambda: step(False)


def _validation() -> tuple[Callable, Callable]:
    mean, deviation, actions = torch.randn(ROLLOUT, 12), torch.ones(ROLLOUT, 12), torch.randn(ROLLOUT, 12)

    def log_prob(validate: bool):
        return Normal(mean, deviation, validate_args=validate).log_prob(actions)

    return lambda: log_prob(True), lambda: log_prob(False)


def _loader() -> tuple[Callable, Callable]:
    states, returns = torch.randn(ROLLOUT, 17), torch.randn(ROLLOUT)
    loader = DataLoader(TensorDataset(states, returns), batch_size=MINIBATCH, shuffle=True)

    def by_index():
        for index in torch.randperm(ROLLOUT).split(MINIBATCH):
            _ = states[index], returns[index]

    def by_loader():
        for _ in loader:
            pass

    return by_loader, by_index


def _peak_of_a_step(timesteps: int) -> int:
    network, states = _network(), torch.randn(timesteps, 17)
    return peak_memory(lambda: network(states).square().mean().backward()).peak_bytes


def _network() -> nn.Module:
    return nn.Sequential(nn.Linear(17, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


PAIRS = {
    "TO001": ("32 stacks of four frames: a list of arrays against np.array of it", _stacks_of_frames),
    "TO002": ("a gradient step of a small network, with anomaly detection and without", _anomaly),
    "TO003": (f"log_prob of {ROLLOUT:,} actions of 12 numbers, validated and not", _validation),
    "TO004": (f"an epoch over {ROLLOUT:,} timesteps: DataLoader against an index", _loader),
}
