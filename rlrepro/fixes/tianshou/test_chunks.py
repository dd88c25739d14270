"""in_chunks on the torch that is installed."""

import pytest
import torch
from torch import nn

from .chunks import in_chunks


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_values_and_gradients_are_those_of_one_call(size):
    torch.manual_seed(0)
    net, rows = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)), torch.randn(100, 5)
    results = {}
    for name, values in (("one", net(rows)), ("chunks", in_chunks(net, rows, size=size))):
        net.zero_grad()
        values.square().sum().backward()
        results[name] = [values.detach(), *(weight.grad.clone() for weight in net.parameters())]
    torch.testing.assert_close(results["chunks"], results["one"])


def test_no_chunk_is_larger_than_requested():
    sizes = []
    with torch.no_grad():
        in_chunks(lambda rows: sizes.append(len(rows)) or rows, torch.zeros(127, 1), size=64)
    assert sizes == [64, 63]
