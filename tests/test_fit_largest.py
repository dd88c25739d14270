"""The largest sizes fit, and larger ones don't."""

import pytest
import torch
from torch import nn

from rlrepro.fit import plan_update

from .fit_networks import make_plan


@pytest.mark.filterwarnings("error")  # the search tries a minibatch of one, which has no standard deviation
@pytest.mark.slow
@pytest.mark.parametrize("rollout", [256, 509, 512])
def test_the_largest_sizes_fit_and_larger_ones_do_not(rollout):
    planned = make_plan("nature", rollout=rollout, max_batchsize=64, batch_size=64)
    gib = 110 / 2**10
    largest = {"batch_size": planned.largest_batch_size(gib), "max_batchsize": planned.largest_max_batchsize(gib)}
    assert make_plan("nature", rollout=rollout, **largest).fits(gib)
    for name in largest:
        for extra in (1, 2, 5, 30):
            assert not make_plan("nature", rollout=rollout, **{**largest, name: largest[name] + extra}).fits(gib), name
    assert planned.largest_batch_size(8) == rollout and planned.largest_batch_size(0.001) == 0


@pytest.mark.slow
def test_the_largest_rollout_fits_and_one_more_chunk_does_not():
    planned = make_plan("mlp", rollout=256, max_batchsize=64, batch_size=64)
    gib = 3 / 2**10
    rows = planned.largest_rollout(gib)
    assert rows > 10_000
    assert make_plan("mlp", rollout=rows, max_batchsize=64).fits(gib)
    assert not make_plan("mlp", rollout=rows + 64, max_batchsize=64).fits(gib)


@pytest.mark.slow
def test_sizes_that_do_not_divide_each_other():
    planned = make_plan("mlp", rollout=1000, max_batchsize=64, batch_size=1000, device="cuda")
    gib = planned.at(rollout=24_000).peak_bytes / 2**30
    assert planned.largest_rollout(gib) == 24_000 and planned.at(rollout=24_000).fits(gib)
    gib_for_52 = planned.at(max_batchsize=52).needed["preprocess"] / 2**30
    largest = planned.largest_max_batchsize(gib_for_52)
    assert largest >= 52 and planned.at(max_batchsize=largest).needed["preprocess"] <= gib_for_52 * 2**30


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1000, 5888])
def test_the_longest_rollout_is_found_between_multiples(batch_size):
    planned = make_plan("mlp", rollout=1000, max_batchsize=256, batch_size=batch_size, device="cuda")
    gib = planned.at(rollout=5888).peak_bytes / 2**30
    longest = planned.largest_rollout(gib)
    assert longest >= 5888 and planned.at(rollout=longest).fits(gib)
    assert not any(planned.at(rollout=longest + extra).fits(gib) for extra in (1, 7, 100, 1000, 5000))


@pytest.mark.slow
def test_the_largest_batch_beside_a_large_optimizer_step_and_where_larger_ones_change_nothing():
    def make():
        net = nn.Linear(512, 512)
        return net, torch.optim.Adam(net.parameters())

    def step(state, batch_size):
        net, optimizer = state
        optimizer.zero_grad()
        net(torch.zeros(batch_size, 512)).mean().backward()
        optimizer.step()

    planned = plan_update(make, step, device="cpu", device_memory_gib=0.1, batch_size=2)
    assert planned.at(batch_size=64).peak_bytes == planned.peak_bytes  # that of the optimizer's step
    size = planned.largest("batch_size")
    assert planned.at(batch_size=size).fits() and not planned.at(batch_size=size + 1).fits()
    for batch_size in (2, 1000):
        clamped = plan_update(
            make, lambda state, batch_size: step(state, min(batch_size, 2000)), device="cpu", batch_size=batch_size
        )
        assert clamped.largest("batch_size", gib=8) is None
