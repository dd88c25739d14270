"""The slice sampler by priority, in the torchrl that is installed."""

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyStackStorage, LazyTensorStorage, PrioritizedSliceSampler, ReplayBuffer

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


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("span", [False, (False, True)])
def test_slices_of_a_full_storage_stay_within_their_trajectory(columns, span):
    """Unlike those of torchrl 0.14.1 with several columns, or with a span."""
    stored, steps = 20, torch.arange(47)
    lengths, first = torch.tensor([7, 8, 9])[:columns, None], 100 * torch.arange(columns)[:, None]
    written = TensorDict({"episode": steps // lengths + first, "step": steps % lengths}, [columns, len(steps)])
    options = {"slice_len": SLICE, "traj_key": "episode", "span": span}
    sampler = IncrementalPrioritizedSliceSampler(columns * stored, 1.0, 1.0, **options)
    storage = LazyTensorStorage(columns * stored, ndim=1 if columns == 1 else 2)
    buffer = ReplayBuffer(storage=storage, sampler=sampler, batch_size=1_000 * SLICE)
    for part in written.split(6, dim=1):
        buffer.extend(part if columns > 1 else part[0])
    batch, info = buffer.sample(return_info=True)
    continues = ~info["next", "truncated"].flatten()[:-1]
    assert (batch["episode"].diff()[continues] == 0).all() and (batch["step"].diff()[continues] == 1).all()
    starts = torch.cat([torch.ones(1, dtype=torch.bool), ~continues])
    left = sum(
        int(((row[-stored:] == episode).sum() - (2 if span else SLICE) + 1).clamp_min(0))
        for row in written["episode"]
        for episode in row[-stored:].unique()
    )
    assert len({*zip(batch["episode"][starts].tolist(), batch["step"][starts].tolist(), strict=True)}) == left


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


def test_slices_of_a_list_that_is_not_full_may_end_early():
    sampler = IncrementalPrioritizedSliceSampler(50, 1.0, 1.0, slice_len=4, traj_key="episode", span=(False, True))
    buffer = ReplayBuffer(storage=LazyStackStorage(50), sampler=sampler, batch_size=400)
    buffer.extend(transitions([6, 5], 0))
    batch, info = buffer.sample(return_info=True)
    continues = ~info["next", "truncated"].flatten()[:-1]
    assert (batch["episode"].diff()[continues] == 0).all() and (batch["step"].diff()[continues] == 1).all()
