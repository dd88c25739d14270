"""The memory that the allocator reserves, according to a plan."""

import pytest
import torch
from torch import nn

from rlrepro.fit import CannotPlan, plan, plan_update
from rlrepro.fit.caching_allocator import LARGE_SEGMENT, MIB, SMALL_SEGMENT
from rlrepro.fit.update_planner import RESERVE
from rlrepro.lab import VirtualCard


def make():
    network = nn.Linear(1024, 1024, bias=False)  # 4 MiB
    return network, torch.optim.SGD(network.parameters(), lr=0.1)


def step(state, batch_size=1024):
    network, optimizer = state
    optimizer.zero_grad()
    network(torch.zeros(batch_size, 1024)).sum().backward()
    optimizer.step()


def test_a_plan_includes_the_reserved_memory():
    planned = plan_update(make, step, batch_size=1024, device="cpu")
    reserved = planned.reserved()
    # the weights, the batch, its result and what operators need, of 4 MiB each; the loss lies in a small segment
    assert planned.needed["update"] > (1 + RESERVE) * 16 * MIB
    assert reserved.allocated_bytes == pytest.approx(planned.needed["update"] / (1 + RESERVE), abs=3 * 512)
    assert reserved.reserved_bytes == LARGE_SEGMENT + SMALL_SEGMENT
    assert reserved.outside_bytes == 512 * MIB and "reserved" in str(reserved)
    total_gib = (reserved.reserved_bytes + reserved.outside_bytes) / 2**30
    assert reserved.fits(total_gib) and not reserved.fits(0.5 + 10 / 1024)
    assert planned.reserved(reserve_gib=0).fits(reserved.reserved_bytes / 2**30)


def test_changing_sizes_fragment_unless_segments_expand():
    planned = plan_update(make, step, batch_size=4000, device="cpu")
    larger = [planned.at(batch_size=size) for size in (4500, 5000)]
    alone, in_turn = planned.at(batch_size=5000).reserved(), planned.reserved(*larger)
    assert in_turn.allocated_bytes == pytest.approx(alone.allocated_bytes, rel=0.02)
    assert in_turn.reserved_bytes > 1.3 * alone.reserved_bytes
    assert in_turn.fragmentation > alone.fragmentation + 0.2
    expanding = planned.reserved(*larger, expandable_segments=True)
    pages = -(-expanding.allocated_bytes // LARGE_SEGMENT) * LARGE_SEGMENT
    assert expanding.reserved_bytes <= pages + SMALL_SEGMENT


def test_target_networks_with_batch_norm_count_once():
    import copy

    def make_two():
        network = nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256))
        return network, copy.deepcopy(network)

    def use(state):
        for network in state:
            with torch.no_grad():
                network(torch.zeros(2, 256))

    network_bytes = (256 * 256 + 5 * 256) * 4 + 8
    assert 2 * network_bytes <= plan_update(make_two, use, device="cpu").stages["update"] < 2.1 * network_bytes


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(4096,), (4000, 4500, 5000)])
def test_a_card_reserves_what_is_planned(sizes):
    def make_on_card():
        network = nn.Linear(1024, 1024, bias=False).to("cuda")
        return network, torch.optim.SGD(network.parameters(), lr=0.1)

    def step_on_card(state, batch_size=1024):
        network, optimizer = state
        optimizer.zero_grad()
        network(torch.zeros(batch_size, 1024, device="cuda")).sum().backward()
        optimizer.step()

    first, *later = [plan_update(make_on_card, step_on_card, batch_size=size, device="cuda") for size in sizes]
    planned = first.reserved(*later)
    with VirtualCard(None, device="cuda"):  # frees what earlier work has left, and the workspaces of cuBLAS
        before = torch.cuda.memory_reserved()
    state = make_on_card()
    for size in sizes:
        for _ in range(2):
            step_on_card(state, size)
    measured = torch.cuda.max_memory_reserved() - before
    assert planned.reserved_bytes == pytest.approx(measured, abs=2 * LARGE_SEGMENT)


def test_libraries_have_no_trace_yet():
    from gymnasium import spaces

    from rlrepro.cases.common.tianshou_vectors import FEATURES, DiscreteActor, VectorCritic

    space = spaces.Box(-1, 1, (FEATURES,))
    planned = plan(DiscreteActor(FEATURES, 6), VectorCritic(FEATURES), space, spaces.Discrete(6), rollout=64)
    with pytest.raises(CannotPlan, match="with plan_update"):
        planned.reserved()
