"""The memory that operators need on top of their results, measured separately on a few rows."""

import pytest
import torch

from rlrepro.fit import plan_update
from rlrepro.fit.operators import _Measuring
from rlrepro.lab import peak_memory


def make():
    net = torch.nn.LSTM(16, 32)
    return net, torch.optim.Adam(net.parameters())


def step(state, batch_size=64):
    net, optimizer = state
    out, _ = net(torch.rand(50, batch_size, 16))
    out.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("batch_size", [64, 1024])  # run at full size; run on a few rows
def test_a_recurrent_layers_backward_pass_is_measured_with_the_workspace_of_a_real_forward_pass(batch_size, one_thread):
    planned = plan_update(make, step, device="cpu", batch_size=batch_size)
    state = make()
    measured = peak_memory(lambda: step(state, batch_size)).peak_bytes
    assert measured <= planned.needed["update"] <= 1.1 * measured


def test_the_marks_of_an_optimizer_are_not_measured():
    """They open and close a range of torch's profiler. Measured separately, one profiler run would open the range and
    another would close it, which crashes the profiler."""
    net, optimizer = make()
    with _Measuring(torch.device("cpu")) as measuring:
        step((net, optimizer))
    assert measuring.calls and not [func for func in measuring.calls if func.namespace == "profiler"]
