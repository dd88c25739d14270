"""A virtual card on a GPU."""

import pytest
import torch

from rlrepro.lab import VirtualCard


@pytest.mark.gpu
def test_limits_a_real_card_and_gives_it_back():
    before = torch.cuda.get_per_process_memory_fraction()
    with VirtualCard(1, device="cuda"), pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**31, dtype=torch.uint8, device="cuda")
    assert torch.cuda.get_per_process_memory_fraction() == before
    torch.empty(2**31, dtype=torch.uint8, device="cuda")


@pytest.mark.gpu
def test_a_card_without_a_limit_is_the_real_one():
    with VirtualCard(None, device="cuda") as virtual_card:
        tensor = torch.empty(2**31, dtype=torch.uint8, device="cuda")
    assert virtual_card.peak_bytes >= tensor.nbytes


@pytest.mark.gpu
def test_garbage_of_earlier_work_takes_no_room():
    cycle = []
    with VirtualCard(0.5, device="cuda"):
        cycle.append(torch.empty(2**28, dtype=torch.uint8, device="cuda"))
    cycle.append(cycle)  # a cycle, which only the garbage collector frees
    del cycle
    with VirtualCard(0.5, device="cuda") as virtual_card:
        assert virtual_card.live_bytes < 2**28
        torch.empty(2**28 + 2**27, dtype=torch.uint8, device="cuda")
