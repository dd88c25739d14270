"""The sizes from which torch uses several threads; PT001 relies on them."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch
from torch import nn

from rlrepro.doctor.workload import INPUTS, WEIGHTS
from rlrepro.lab import this_machine

SECONDS = 0.3
NOT_INTEL = {"MKL_CBWR": "COMPATIBLE"}  # MKL takes its path for processors that are not Intel's
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(this_machine().cores < 2, reason="one core has no use for several threads"),
    pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="other libraries share products otherwise"),
]


def other_threads_share(make_step, size: int) -> float:
    """The share of other threads of this process in the CPU time of a step."""
    step = make_step(size)
    for _ in range(5):
        step()
    time.sleep(0.1)  # until the threads that have started are asleep
    start, process_start, thread_start = time.perf_counter(), time.process_time(), time.thread_time()
    while time.perf_counter() - start < SECONDS:
        step()
    return 1 - (time.thread_time() - thread_start) / (time.process_time() - process_start)


def product(inputs: int, outputs: int = 16, states: int = 5):
    layer, states = nn.Linear(inputs, outputs), torch.randn(states, inputs)
    return torch.no_grad()(lambda: layer(states))


def minibatch(inputs: int):
    return product(inputs, 128, 64)


def adam(weights: int):
    layer = nn.Parameter(torch.randn(weights))
    layer.grad = torch.randn(weights)
    return torch.optim.Adam([layer]).step


@pytest.mark.parametrize(
    ("make_step", "size", "several", "environment"),
    [
        (product, INPUTS, False, {}),
        (product, INPUTS, False, NOT_INTEL),
        (product, 24, True, NOT_INTEL),
        (product, 128, True, NOT_INTEL),
        (minibatch, 128, True, {}),
        (adam, WEIGHTS, False, {}),
        (adam, WEIGHTS + 1, True, {}),
    ],
)
def test_torch_uses_several_threads(make_step, size, several, environment, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")  # with threads that sleep, the share may be near the bound
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:  # without other threads
        assert (executor.submit(other_threads_share, make_step, size).result(120) > 0.1) is several
