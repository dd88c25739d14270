"""The slice samplers without replacement and by priority, in the torchrl that is installed."""

import numpy as np
import pytest
import torch
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers import samplers

from .prioritized import IncrementalPrioritizedSliceSampler
from .test_sampler import SLICE, transitions
from .without_replacement import IncrementalSliceSamplerWithoutReplacement

needs_trees = pytest.mark.skipif(
    getattr(samplers, "SumSegmentTreeFp32", None) is None
    and getattr(getattr(samplers, "prioritized", None), "SumSegmentTreeFp32", None) is None,
    reason="torchrl's extension, which has the trees of priorities, does not load with this torch",
)


def buffer_of(sampler, slices, capacity=60):
    torch.manual_seed(0)
    return ReplayBuffer(storage=LazyTensorStorage(capacity), sampler=sampler, batch_size=SLICE * slices)


@pytest.mark.parametrize("shuffle", [True, False])
def test_each_trajectory_comes_once_per_epoch(shuffle):
    sampler = IncrementalSliceSamplerWithoutReplacement(slice_len=SLICE, traj_key="episode", shuffle=shuffle)
    buffer = buffer_of(sampler, slices=3)
    buffer.extend(transitions([9, 3, 7, 4, 5, 8, 6, 4], 0))
    orders = set()
    for _ in range(20):
        drawn, ended = [], []
        for _ in range(3):
            slices = buffer.sample().reshape(-1, SLICE)
            assert (slices["step"].diff(dim=1) == 1).all()
            drawn += slices["episode"][:, 0].tolist()
            ended.append(sampler.ran_out)
        assert sorted(drawn) == [0, 2, 3, 4, 5, 6, 7] and ended == [False, False, True]
        orders.add(tuple(drawn))
    assert len(orders) == 1 if not shuffle else len(orders) > 10


def test_an_epoch_goes_on_from_its_state():
    first, second = (IncrementalSliceSamplerWithoutReplacement(slice_len=SLICE, traj_key="episode") for _ in range(2))
    buffers = [buffer_of(sampler, slices=2) for sampler in (first, second)]
    for buffer in buffers:
        buffer.extend(transitions([6] * 8, 0))
    drawn = [*buffers[0].sample()["episode"][::SLICE], *buffers[0].sample()["episode"][::SLICE]]
    second.load_state_dict(first.state_dict())
    drawn += [*buffers[1].sample()["episode"][::SLICE], *buffers[1].sample()["episode"][::SLICE]]
    assert sorted(map(int, drawn)) == list(range(8)) and second.ran_out


def test_too_few_trajectories_for_a_full_batch():
    sampler = IncrementalSliceSamplerWithoutReplacement(slice_len=SLICE, traj_key="episode", drop_last=True)
    buffer = buffer_of(sampler, slices=3)
    buffer.extend(transitions([6, 6], 0))
    assert not sampler.can_sample(buffer._storage, 3 * SLICE)
    with pytest.raises(ValueError, match="at least 3 trajectories, one per slice, found 2"):
        buffer.sample()


@needs_trees
@pytest.mark.parametrize("is_strict", [True, False])
def test_starts_have_the_shares_of_their_priorities_while_the_ring_goes_round(is_strict):
    """The tree that is drawn from holds a priority where a slice can start, and zero elsewhere, after any write."""
    random, first = np.random.default_rng(0), 0
    options = {"slice_len": SLICE, "traj_key": "episode", "strict_length": is_strict}
    sampler = IncrementalPrioritizedSliceSampler(60, 1.0, 1.0, **options)
    buffer = buffer_of(sampler, slices=20)
    for _ in range(30):
        lengths = [*random.integers(1, 12, 3).tolist(), SLICE]
        for part in transitions(lengths, first).split(7):  # so that trajectories continue after a sample
            buffer.extend(part)
            if sampler.can_sample(buffer._storage, SLICE):
                buffer.sample()
        first += len(lengths)
        buffer.update_priority(torch.arange(len(buffer)), torch.from_numpy(random.random(len(buffer)) + 0.1).float())
        batch = buffer.sample()
        if is_strict:
            slices = batch.reshape(-1, SLICE)
            assert (slices["episode"] == slices["episode"][:, :1]).all() and (slices["step"].diff(dim=1) == 1).all()
        episodes, oldest = buffer[:]["episode"].numpy(), buffer._writer._cursor if len(buffer) == 60 else 0
        ring = np.roll(episodes, -oldest)
        left = np.array([(ring[place:] == ring[place]).sum() for place in range(len(ring))])
        can_start = left >= SLICE
        if not is_strict:
            can_start |= np.concatenate([[True], ring[1:] != ring[:-1]])
        tree = np.roll(np.array([sampler._sum_tree[place] for place in range(len(buffer))]), -oldest)
        assert ((tree > 0) == can_start).all()
    assert (torch.as_tensor(sampler.state_dict()["_sum_tree"][torch.arange(60)]) > 0).all()
