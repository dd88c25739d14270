"""The line that holds the memory: measured on a CPU, and from records in the form of CUDA's allocator."""

import numpy as np
import pytest
import torch

from rlrepro.lab import MemoryHistory, VirtualCard
from rlrepro.lab.memory_history import BEFORE, ELSEWHERE, events_of

MIB = 2**20


def block(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8)


def ends(history) -> dict[str, int]:
    return {line.partition("  ")[2]: int(live[-1]) // MIB for line, live in history.live_by_line().items()}


def test_a_block_belongs_to_its_line_until_it_is_freed():
    with MemoryHistory(["tests"], device="cpu") as history:
        kept = block(8)
        dropped = block(4)
        del dropped
    assert ends(history) == {"kept = block(8)": 8, "dropped = block(4)": 0}
    live = history.live_by_line()
    assert max(sum(live.values())) == 12 * MIB and kept.nbytes == 8 * MIB


def test_earlier_memory_and_memory_of_no_line_have_their_own_names():
    weights = block(2)
    with MemoryHistory(["tests"], device="cpu") as history:
        doubled = weights + weights
    assert history.live_by_line()[BEFORE][-1] == 2 * MIB
    with MemoryHistory(["no such folder"], device="cpu") as history:
        doubled = weights + doubled
    assert history.live_by_line()[ELSEWHERE][-1] == 2 * MIB


def test_it_ends_where_the_card_is_full():
    history, blocks = MemoryHistory(["tests"], device="cpu"), []
    with pytest.raises(torch.OutOfMemoryError), VirtualCard(10 / 1024, device="cpu"), history:
        while True:
            blocks.append(block(4))
    assert ends(history) == {"blocks.append(block(4))": 8}
    blocks.clear()
    assert ends(history) == {"blocks.append(block(4))": 8}  # what is freed later is not part of this history


def test_it_agrees_with_the_cards_account():
    layers = torch.nn.Sequential(torch.nn.Linear(100, 200), torch.nn.ReLU(), torch.nn.Linear(200, 3))
    with VirtualCard(None, device="cpu") as card, MemoryHistory(["tests"], device="cpu") as history:
        layers(torch.ones(50, 100)).sum().backward()
    total = sum(history.live_by_line().values())
    assert total.max() == card.peak_bytes and total[-1] == card.live_bytes


def frames(*locations):
    return [{"filename": filename, "line": line, "name": "f"} for filename, line in locations]


def test_the_allocators_record_is_read():
    inner, outer = ("/x/torch/nn/linear.py", 9), ("/x/tianshou/a2c.py", 2)
    trace = [
        {"action": "segment_alloc", "addr": 1, "size": 100, "frames": frames(outer)},
        {"action": "alloc", "addr": 1, "size": 64, "frames": frames(inner, outer, ("/x/tianshou/ppo.py", 7))},
        {"action": "alloc", "addr": 2, "size": 32, "frames": []},
        {"action": "free_requested", "addr": 1, "size": 64, "frames": []},
        {"action": "free_completed", "addr": 1, "size": 64, "frames": []},
        {"action": "free_completed", "addr": 9, "size": 8, "frames": []},
        {"action": "oom", "size": 4096, "frames": frames(outer)},
    ]
    events = list(events_of(trace, frozenset({"tianshou"})))
    assert events == [("ppo.py:7  ", 64), (ELSEWHERE, 32), ("ppo.py:7  ", -64), (BEFORE, -8)]


def test_a_folder_matches_by_its_full_name():
    trace = [{"action": "alloc", "addr": 1, "size": 1, "frames": frames(("/tianshou-1.0.0/x.py", 1))}]
    assert list(events_of(trace, frozenset({"tianshou"}))) == [(ELSEWHERE, 1)]


def test_a_history_without_allocations_is_empty():
    with MemoryHistory(["tests"], device="cpu") as history:
        np.zeros(10)
    assert history.events == [] and history.live_by_line() == {}


def test_a_single_name_needs_no_list():
    with MemoryHistory("tests", device="cpu") as history:
        kept = block(8)
    assert ends(history) == {"kept = block(8)": 8} and kept.nbytes == 8 * MIB


def test_it_records_anew_when_it_is_entered_again():
    history = MemoryHistory("tests", device="cpu")
    with history:
        first = block(8)
    earlier = history.events
    with history:
        second = block(4)
    assert ends(history) == {"second = block(4)": 4} and len(earlier) == 1
    assert first.nbytes == 2 * second.nbytes


def test_it_can_not_be_entered_while_it_records():
    history = MemoryHistory("tests", device="cpu")
    with history:
        with pytest.raises(RuntimeError, match="create another MemoryHistory"), history:
            pass
        kept = block(8)
    assert ends(history) == {"kept = block(8)": 8} and kept.nbytes == 8 * MIB


class Labelled(torch.Tensor):
    """A class of the usual kind, as tensordict's MemoryMappedTensor is."""

    def __new__(cls, tensor):
        return super().__new__(cls, tensor)


def test_tensors_of_other_classes_can_be_made():
    rows = torch.ones(3)
    with VirtualCard(1, device="cpu"), VirtualCard(1, device="cpu") as card, MemoryHistory("tests", device="cpu"):
        labelled = Labelled(rows)
        assert type(labelled) is Labelled and type(rows.view(3)) is torch.Tensor
        assert card.live_bytes == rows.nbytes and labelled.data_ptr() == rows.data_ptr()
