import threading
import warnings

import pytest
import torch
from torch import nn

from rlrepro.lab import peak_memory

MIB = 2**20


def blocks(*mib):
    return [torch.empty(size * MIB, dtype=torch.uint8) for size in mib]


def test_counts_peak_and_held_bytes():
    def fn():
        first = blocks(8, 4)
        del first
        return blocks(5)

    measured = peak_memory(fn, device="cpu")
    assert measured.peak_bytes == 12 * MIB
    assert measured.held_bytes == 5 * MIB


def test_does_not_count_earlier_memory():
    existing = blocks(64)
    assert peak_memory(lambda: existing[0].view(-1)[:1].add_(1), device="cpu").peak_bytes < MIB


def test_counts_the_temporaries_inside_operators():
    """A convolution's backward needs a workspace that no tensor of the program holds."""
    layer, images = nn.Conv2d(4, 32, 8, stride=4), torch.randn(64, 4, 84, 84)
    peak = peak_memory(lambda: layer(images).sum().backward(), device="cpu").peak_bytes
    tensors = 3 * 64 * 32 * 20 * 20 * 4  # the output, its gradient, and room for weights
    assert peak > tensors


@pytest.mark.slow
@pytest.mark.parametrize("network", [nn.Linear(300, 400), nn.Sequential(nn.Flatten(), nn.Linear(300, 7), nn.ReLU())])
def test_is_the_same_number_on_each_run(network):
    rows = torch.randn(500, 300)

    def step():
        network.zero_grad()
        network(rows).sum().backward()

    assert len({peak_memory(step, device="cpu").peak_bytes for _ in range(4)}) == 1


def test_frees_the_warm_up_before_the_measured_call():
    freed = []

    class Result:
        def __init__(self):
            self.itself = self  # a cycle, which only the garbage collector frees

        def __del__(self):
            freed.append(True)

    freed_at_each_call = []

    def fn():
        freed_at_each_call.append(len(freed))
        return Result()

    peak_memory(fn, device="cpu")
    assert freed_at_each_call == [0, 1]


def test_passes_on_exceptions_of_the_function():
    with pytest.raises(ZeroDivisionError):
        peak_memory(lambda: 1 / 0, device="cpu")


def test_refuses_to_measure_within_a_measurement():
    with pytest.raises(RuntimeError, match="one after the other"):
        peak_memory(lambda: peak_memory(lambda: None, device="cpu"), device="cpu")
    assert peak_memory(lambda: blocks(1), device="cpu").peak_bytes == MIB


def test_rejects_an_unknown_device():
    with pytest.raises(ValueError, match="'auto', 'cpu', 'cuda'"):
        peak_memory(lambda: None, device="gpu")


@pytest.mark.gpu
def test_counts_on_cuda():
    measured = peak_memory(lambda: [torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")], device="cuda")
    assert measured.peak_bytes == measured.held_bytes == 8 * MIB


@pytest.mark.slow
def test_measurements_in_several_threads_take_turns():
    peaks = []

    def measure():
        peaks.append(peak_memory(lambda: blocks(8), device="cpu").peak_bytes)

    threads = [threading.Thread(target=measure) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert peaks == [8 * MIB] * 3


def test_work_in_another_thread_causes_a_warning():
    def fn():
        thread = threading.Thread(target=blocks, args=(8,))
        thread.start()
        thread.join(30)

    with pytest.warns(
        RuntimeWarning, match="threads were started during this measurement, and what they allocate is not counted"
    ):
        assert peak_memory(fn, device="cpu").peak_bytes == 0
