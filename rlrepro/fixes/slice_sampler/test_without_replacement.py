"""The slice sampler without replacement, in the torchrl that is installed."""

import numpy as np
import pytest
import torch
from torchrl.data import LazyTensorStorage, ReplayBuffer

from .test_sampler import SLICE, transitions
from .without_replacement import IncrementalSliceSamplerWithoutReplacement


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
        episodes, ran_out = [], []
        for _ in range(3):
            slices = buffer.sample().reshape(-1, SLICE)
            assert (slices["step"].diff(dim=1) == 1).all()
            episodes += slices["episode"][:, 0].tolist()
            ran_out.append(sampler.ran_out)
        assert sorted(episodes) == [0, 2, 3, 4, 5, 6, 7] and ran_out == [False, False, True]
        orders.add(tuple(episodes))
    assert len(orders) == 1 if not shuffle else len(orders) > 10


@pytest.mark.parametrize(("count", "at_once"), [(12, 2), (6, 4), (12, 3)])
def test_each_order_of_an_epoch_is_as_likely(count, at_once):
    """This also holds after an epoch that ended early because the number of trajectories changed."""
    torch.manual_seed(0)
    sampler = IncrementalSliceSamplerWithoutReplacement(slice_len=SLICE, traj_key="episode")
    orders, epochs = np.zeros((count, count)), 3_000
    successors = np.zeros((count, count))
    for _ in range(epochs):
        sampler._draw(count + 1, at_once)
        order = np.concatenate([sampler._draw(count, at_once) for _ in range(-(count // -at_once))])
        assert sorted(order) == list(range(count)) and sampler.ran_out
        orders[np.arange(count), order] += 1
        successors[order[:-1], order[1:]] += 1
    for observed in (orders, successors[~np.eye(count, dtype=bool)]):
        expected, dof = observed.sum() / observed.size, (count - 1) ** 2
        chi_square = ((observed - expected) ** 2 / expected).sum()
        assert chi_square < dof + 6 * np.sqrt(2 * dof)


def test_repeated_draws_are_replaced_uniformly():
    torch.manual_seed(0)
    sampler = IncrementalSliceSamplerWithoutReplacement(slice_len=SLICE, traj_key="episode")
    sampler._set_order(np.arange(14))
    draws = np.stack([sampler._distinct(2, 14, 3) for _ in range(20_000)])
    assert (np.diff(np.sort(draws, 1), axis=1) > 0).all()
    observed, expected = np.stack([np.bincount(column, minlength=14) for column in draws.T])[:, 2:], len(draws) / 12
    assert ((observed - expected) ** 2 / expected).sum() < 33 + 6 * np.sqrt(2 * 33)


def test_an_epoch_continues_from_its_state():
    first, second = (IncrementalSliceSamplerWithoutReplacement(slice_len=SLICE, traj_key="episode") for _ in range(2))
    buffers = [buffer_of(sampler, slices=2) for sampler in (first, second)]
    for buffer in buffers:
        buffer.extend(transitions([6] * 8, 0))
    episodes = [*buffers[0].sample()["episode"][::SLICE], *buffers[0].sample()["episode"][::SLICE]]
    second.load_state_dict(first.state_dict())
    episodes += [*buffers[1].sample()["episode"][::SLICE], *buffers[1].sample()["episode"][::SLICE]]
    assert sorted(map(int, episodes)) == list(range(8)) and second.ran_out


def test_too_few_trajectories_for_a_full_batch():
    sampler = IncrementalSliceSamplerWithoutReplacement(slice_len=SLICE, traj_key="episode", drop_last=True)
    buffer = buffer_of(sampler, slices=3)
    buffer.extend(transitions([6, 6], 0))
    assert not sampler.can_sample(buffer._storage, 3 * SLICE)
    with pytest.raises(ValueError, match="at least 3 trajectories, one per slice, found 2"):
        buffer.sample()


@pytest.mark.parametrize("episodes", [5, 40])
def test_a_slice_starts_anywhere_in_its_trajectory(episodes):
    sampler = IncrementalSliceSamplerWithoutReplacement(slice_len=SLICE, traj_key="episode")
    buffer = buffer_of(sampler, slices=5, capacity=1_000)
    buffer.extend(transitions([SLICE + 5] * episodes, 0))
    starts = torch.cat([buffer.sample()["step"][::SLICE] for _ in range(2_000)])
    counts = torch.bincount(starts, minlength=6).double()
    assert len(counts) == 6 and ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 5 + 6 * 10**0.5
