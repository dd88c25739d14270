import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rlrepro.fixes import in_chunks
from rlrepro.lab import peak_memory

WIDE = nn.Sequential(nn.Linear(16, 512), nn.Tanh(), nn.Linear(512, 3))  # no kink, at which rounding could decide


def gradients(run):
    WIDE.zero_grad()
    run().square().mean().backward()
    return torch.cat([parameter.grad.flatten() for parameter in WIDE.parameters()])


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(0, 40), size=st.integers(1, 50))
def test_equals_one_call(rows, size):
    inputs = torch.randn(rows, 16)
    expected, chunked = WIDE(inputs), in_chunks(WIDE, inputs, size=size)
    assert chunked.shape == expected.shape
    torch.testing.assert_close(chunked, expected)


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_gradients_equal_those_of_one_call(size, checkpoint):
    inputs = torch.randn(100, 16)
    chunked = gradients(lambda: in_chunks(WIDE, inputs, size=size, checkpoint=checkpoint))
    torch.testing.assert_close(chunked, gradients(lambda: WIDE(inputs)), rtol=1e-5, atol=1e-7)


def test_gradients_reach_the_inputs():
    inputs = torch.randn(20, 16, requires_grad=True)
    in_chunks(WIDE, inputs, size=3).sum().backward()
    (expected,) = torch.autograd.grad(WIDE(inputs).sum(), inputs)
    torch.testing.assert_close(inputs.grad, expected)


def test_no_chunk_is_larger_than_requested():
    lengths = []

    def record_length(rows):
        lengths.append(len(rows))
        return rows

    in_chunks(record_length, torch.zeros(511), size=256, checkpoint=False)
    assert lengths == [256, 255]


@pytest.mark.slow
def test_memory_is_bounded_with_and_without_gradients():
    def peak(rows, train, **options):
        inputs = torch.randn(rows, 16)

        def run():
            out = in_chunks(WIDE, inputs, **options) if options else WIDE(inputs)
            if train:
                out.sum().backward()

        with torch.set_grad_enabled(train):
            return peak_memory(run, device="cpu").peak_bytes

    for train in (True, False):
        assert peak(16_384, train) > 20 * peak(16_384, train, size=64)
    results = 4 * 3 * (16_384 - 4096)  # without gradients, only the results must grow; joining holds them twice
    assert peak(16_384, False, size=64) - peak(4096, False, size=64) <= 2 * results
    assert peak(16_384, True) - peak(4096, True) > 20 * (peak(16_384, True, size=64) - peak(4096, True, size=64))
    assert peak(16_384, True, size=64, checkpoint=False) > 10 * peak(16_384, True, size=64)


def test_takes_several_inputs_arrays_and_batches_and_returns_tuples():
    from tianshou.data import Batch

    numbers, array = torch.arange(10.0), np.arange(10.0)
    results = in_chunks(lambda a, b: (a * 2, torch.as_tensor(b) + 1), numbers, array, size=4)
    assert torch.equal(results[0], numbers * 2) and results[1].tolist() == (array + 1).tolist()
    batch = Batch(obs=array, act=numbers)
    assert in_chunks(lambda rows: rows.act, batch, size=3).tolist() == numbers.tolist()


@pytest.mark.parametrize("size", [0, -1, 2.5, None, True])
def test_rejects_a_size_that_is_not_a_number_of_rows(size):
    with pytest.raises(ValueError, match=f"at least 1; found {size!r}"):
        in_chunks(WIDE, torch.randn(4, 16), size=size)


def test_rejects_unequal_inputs_and_results_that_are_not_one_row_a_row():
    with pytest.raises(ValueError, match=r"\[4, 5\]"):
        in_chunks(torch.add, torch.zeros(4), torch.zeros(5), size=2)
    with pytest.raises(ValueError, match=r"for 3 rows it returned a tensor of shape \(\)"):
        in_chunks(torch.sum, torch.zeros(6), size=3)
    with pytest.raises(TypeError, match="found dict"):
        in_chunks(WIDE, {"obs": torch.zeros(4)}, size=2)
    with pytest.raises(TypeError, match="without dimensions"):
        in_chunks(WIDE, torch.zeros(()), size=2)
    with pytest.raises(TypeError, match="tuple of tensors, found dict"):
        in_chunks(lambda rows: {"a": rows}, torch.zeros(4), size=2)
    with pytest.raises(ValueError, match="at least one input"):
        in_chunks(torch.sum, size=3)
