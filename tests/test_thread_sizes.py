"""The sizes from which torch uses several threads, on which PT001 relies."""

import time

import pytest
import torch
from torch import nn

from rlrepro.doctor.workload import INPUTS, WEIGHTS
from rlrepro.lab import this_machine

SECONDS = 0.3
pytestmark = [
    pytest.mark.skipif(this_machine().cores < 2, reason="one core has no use for several threads"),
    pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="other libraries share products otherwise"),
]


def uses_several_threads(step) -> bool:
    """Whether other threads of this process have a share in the CPU time of a step."""
    for _ in range(5):
        step()
    time.sleep(0.1)  # until those of the last measurement sleep
    start, of_all, of_this = time.perf_counter(), time.process_time(), time.thread_time()
    while time.perf_counter() - start < SECONDS:
        step()
    return 1 - (time.thread_time() - of_this) / (time.process_time() - of_all) > 0.1


@torch.no_grad()
@pytest.mark.parametrize(("inputs", "several"), [(INPUTS, False), (24, True), (128, True)])
def test_a_product_of_a_few_states(inputs, several):
    layer, states = nn.Linear(inputs, 16), torch.randn(5, inputs)
    assert uses_several_threads(lambda: layer(states)) is several


@pytest.mark.parametrize(("weights", "several"), [(WEIGHTS, False), (WEIGHTS + 1, True)])
def test_the_roots_of_adams_step(weights, several):
    layer = nn.Parameter(torch.randn(weights))
    layer.grad, adam = torch.randn(weights), torch.optim.Adam([layer])
    assert uses_several_threads(adam.step) is several
