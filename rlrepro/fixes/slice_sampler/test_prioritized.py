"""The slice sampler by priority, in the torchrl that is installed."""

import numpy as np
import pytest
import torch
from torchrl.data import PrioritizedSliceSampler

from .prioritized import IncrementalPrioritizedSliceSampler
from .test_sampler import SLICE, transitions
from .test_without_replacement import buffer_of

try:
    IncrementalPrioritizedSliceSampler(1, 1.0, 1.0, slice_len=1)
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.mark.parametrize("is_strict", [True, False])
def test_starts_have_the_shares_of_their_priorities_while_the_ring_wraps_around(is_strict):
    """After any write, the sampling tree holds a priority where a slice can start, and zero elsewhere."""
    rng, first = np.random.default_rng(0), 0
    options = {"slice_len": SLICE, "traj_key": "episode", "strict_length": is_strict}
    sampler = IncrementalPrioritizedSliceSampler(60, 1.0, 1.0, **options)
    buffer = buffer_of(sampler, slices=20)
    for _ in range(30):
        lengths = [*rng.integers(1, 12, 3).tolist(), SLICE]
        for part in transitions(lengths, first).split(7):  # so that trajectories continue after a sample
            buffer.extend(part)
            if sampler.can_sample(buffer._storage, SLICE):
                buffer.sample()
        first += len(lengths)
        buffer.update_priority(torch.arange(len(buffer)), torch.from_numpy(rng.random(len(buffer)) + 0.1).float())
        batch = buffer.sample()
        if is_strict:
            slices = batch.reshape(-1, SLICE)
            assert (slices["episode"] == slices["episode"][:, :1]).all() and (slices["step"].diff(dim=1) == 1).all()
        episodes, oldest = buffer[:]["episode"].numpy(), buffer._writer._cursor if len(buffer) == 60 else 0
        ring = np.roll(episodes, -oldest)
        remaining = np.array([(ring[start:] == ring[start]).sum() for start in range(len(ring))])
        can_start = remaining >= SLICE
        if not is_strict:
            can_start |= np.concatenate([[True], ring[1:] != ring[:-1]])
        tree = np.roll(np.array([sampler._sum_tree[cell] for cell in range(len(buffer))]), -oldest)
        assert ((tree > 0) == can_start).all()
    assert (torch.as_tensor(sampler.state_dict()["_sum_tree"][torch.arange(60)]) > 0).all()


def test_the_largest_stored_priority_is_that_of_torchrl():
    """It is that of new transitions, although the last steps of a trajectory are zero in the sampling tree."""
    priorities = []
    for cls in (IncrementalPrioritizedSliceSampler, PrioritizedSliceSampler):
        sampler = cls(60, 1.0, 1.0, slice_len=SLICE, traj_key="episode", max_priority_within_buffer=True)
        buffer = buffer_of(sampler, slices=2)
        buffer.extend(transitions([6, 6], 0))
        buffer.update_priority(torch.arange(12), torch.arange(1, 13).float())
        buffer.sample()
        buffer.update_priority(torch.tensor([11]), torch.tensor([0.5]))
        priorities.append(float(sampler.default_priority))
    assert priorities[0] == priorities[1] > 10
