"""IncrementalSliceSampler in the torchrl that is installed, against torchrl's own SliceSampler."""

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler

from .sampler import IncrementalSliceSampler

SLICE, CAPACITY = 4, 60


def transitions(lengths, first):
    """Trajectories of these lengths, numbered from `first`."""
    rows = sum(lengths)
    episode = torch.repeat_interleave(torch.arange(len(lengths)) + first, torch.tensor(lengths))
    step = torch.cat([torch.arange(length) for length in lengths])
    return TensorDict({"episode": episode, "step": step}, [rows])


def buffer_of(cls):
    torch.manual_seed(0)
    sampler = cls(slice_len=SLICE, traj_key="episode")
    return ReplayBuffer(storage=LazyTensorStorage(CAPACITY), sampler=sampler, batch_size=SLICE * 500)


def test_slices_lie_in_one_trajectory_while_the_ring_wraps_around():
    buffer, rng, first = buffer_of(IncrementalSliceSampler), np.random.default_rng(0), 0
    for _ in range(30):
        lengths = rng.integers(1, 12, 4).tolist()
        buffer.extend(transitions([*lengths, SLICE], first))
        first += len(lengths) + 1
        slices = buffer.sample().reshape(-1, SLICE)
        assert (slices["episode"] == slices["episode"][:, :1]).all() and (slices["step"].diff(dim=1) == 1).all()
        assert slices["episode"].min() >= 0 and slices["episode"].max() == first - 1


def test_starts_are_drawn_as_often_as_by_torchrl():
    """Both draw a trajectory uniformly, then a start in it; shares are within five standard deviations of that."""
    lengths = [4, 5, 9, 3, 14, 6]
    for cls in (IncrementalSliceSampler, SliceSampler):
        buffer = buffer_of(cls)
        buffer.extend(transitions(lengths, 0))
        starts = torch.cat([buffer.sample().reshape(-1, SLICE)[:, 0] for _ in range(20)])
        long_episodes = [episode for episode, length in enumerate(lengths) if length >= SLICE]
        for episode in long_episodes:
            windows = lengths[episode] - SLICE + 1
            for step in range(windows):
                share = 1 / (len(long_episodes) * windows)
                count = ((starts["episode"] == episode) & (starts["step"] == step)).sum().item()
                assert abs(count - share * len(starts)) < 5 * (share * (1 - share) * len(starts)) ** 0.5


def test_it_notices_overwritten_transitions():
    buffer = buffer_of(IncrementalSliceSampler)
    buffer.extend(transitions([30, 30], 0))
    buffer.sample()
    buffer.extend(transitions([10] * 6, 2))
    assert set(buffer.sample()["episode"].tolist()) == {2, 3, 4, 5, 6, 7}


def test_a_misspelt_key_is_an_error():
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(60), sampler=IncrementalSliceSampler(slice_len=2, traj_key="episod")
    )
    buffer.extend(transitions([9, 9], 0).set(("next", "done"), torch.arange(18) == 8))
    with pytest.raises(RuntimeError, match="none of 'episod' is in the storage"):
        buffer.sample(4)
