"""Problems that no other chapter measures: for each rule, the slow version timed against its fix, alternately."""

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, TensorDataset

from rlrepro.lab import Release, compare, peak_memory, this_machine

ROLLOUT, MINIBATCH = 4096, 64  # timesteps
STEPS = 20  # gradient steps of each process


@dataclass(frozen=True)
class Cost:
    """How many times longer, or larger, the slow version is; `low` and `high` are quantiles of the paired ratios."""

    rule: str
    label: str
    ratio: float
    low: float
    high: float


def compare_costs(repeats: int) -> Iterator[Cost]:
    """The costs, each from `repeats` pairs of timings. Let nothing else run meanwhile."""
    for rule, (label, make_pair) in PAIRS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about the slow versions
            comparison = compare(*make_pair(), repeats=repeats)
        yield Cost(rule, label, comparison.ratio, comparison.low, comparison.high)
    yield _thread_variable(repeats)
    ratio = _peak_of_a_step(ROLLOUT) / _peak_of_a_step(MINIBATCH)
    yield Cost(
        "RO002",
        f"memory of a forward and backward pass on {ROLLOUT:,} timesteps against {MINIBATCH}",
        ratio,
        ratio,
        ratio,
    )


def _stacks_of_frames() -> tuple[Callable, Callable]:
    states = [np.random.randint(0, 256, (4, 84, 84), dtype=np.uint8) for _ in range(32)]
    return lambda: torch.tensor(states), lambda: torch.tensor(np.array(states))


def _anomaly() -> tuple[Callable, Callable]:
    network, batch = _network(), torch.randn(MINIBATCH, 17)

    def step(detect: bool):
        with torch.autograd.set_detect_anomaly(detect, check_nan=detect):
            network(batch).square().mean().backward()

    return lambda: step(True), lambda: step(False)


def _validation() -> tuple[Callable, Callable]:
    mean, std, actions = torch.randn(ROLLOUT, 12), torch.ones(ROLLOUT, 12), torch.randn(ROLLOUT, 12)

    def log_prob(validate: bool):
        return Normal(mean, std, validate_args=validate).log_prob(actions)

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


def _thread_variable(repeats: int) -> Cost:
    """Training in one process per core, with the variable that nothing reads and with the one that torch reads."""
    requirement, processes = f"torch=={metadata.version('torch')}", this_machine().cores
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(processes))

        def train_at_once(variable: str):
            releases = [
                stack.enter_context(Release(requirement, environment={variable: "1"})) for _ in range(processes)
            ]
            return lambda: list(pool.map(lambda release: release.run(gradient_steps), releases))

        comparison = compare(train_at_once("TORCH_NUM_THREADS"), train_at_once("OMP_NUM_THREADS"), repeats=repeats)
    label = f"training in {processes} processes at once: TORCH_NUM_THREADS=1 against OMP_NUM_THREADS=1"
    return Cost("PT005", label, comparison.ratio, comparison.low, comparison.high)


def gradient_steps() -> None:
    """Train a small network on STEPS minibatches, in its own process."""
    network, batch = _network(512), torch.randn(MINIBATCH, 17)
    for _ in range(STEPS):
        network(batch).square().mean().backward()


def _peak_of_a_step(timesteps: int) -> int:
    network, states = _network(), torch.randn(timesteps, 17)
    return peak_memory(lambda: network(states).square().mean().backward()).peak_bytes


def _network(width: int = 64) -> nn.Module:
    return nn.Sequential(nn.Linear(17, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


PAIRS = {
    "TO001": ("32 stacks of four frames: a list of arrays against np.array of it", _stacks_of_frames),
    "TO002": ("a forward and backward pass of a small network, with anomaly detection and without", _anomaly),
    "TO003": (f"log_prob of {ROLLOUT:,} actions of 12 numbers, validated and not", _validation),
    "TO004": (f"an epoch over {ROLLOUT:,} timesteps: DataLoader against an index", _loader),
}
