import math

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, PrioritizedSliceSampler, ReplayBuffer

WRITTEN, STORED, SLICE_LEN = 47, 20, 4  # steps of each environment


def rollout(batch_size):
    """Each environment has episodes of another length."""
    env = torch.arange(math.prod(batch_size))[:, None]
    length, step = env + 7, torch.arange(WRITTEN)
    td = TensorDict({"episode": step // length + 100 * env, "step": step % length}, [len(env), WRITTEN])
    return td.reshape(*batch_size, WRITTEN)


def possible_slices(batch_size, shortest, strict_length):
    """The episode, the first step and the length of all slices of what is stored."""
    slices = set()
    for env in rollout(batch_size).reshape(-1, WRITTEN):
        episodes, steps = env["episode"][-STORED:].tolist(), env["step"][-STORED:].tolist()
        for index, (episode, step) in enumerate(zip(episodes, steps, strict=True)):
            left = episodes[index:].count(episode)
            is_first = episode not in episodes[:index]
            if left >= shortest or (is_first and not strict_length):
                slices.add((episode, step, min(left, SLICE_LEN)))
    return slices


class TestPrioritizedSlicesAtCapacity:
    @pytest.mark.parametrize("batch_size", [(), (3,), (2, 2)])
    @pytest.mark.parametrize("strict_length", [True, False])
    @pytest.mark.parametrize("span, shortest", [(False, SLICE_LEN), ((False, 2), 2), ((False, True), 2)])
    def test_slices_stay_within_their_trajectory(self, batch_size, strict_length, span, shortest):
        np.random.seed(0)
        capacity = STORED * math.prod(batch_size)
        sampler = PrioritizedSliceSampler(
            capacity, 1.0, 1.0, slice_len=SLICE_LEN, traj_key="episode", strict_length=strict_length, span=span
        )
        storage = LazyTensorStorage(capacity, ndim=1 + len(batch_size))
        buffer = ReplayBuffer(storage=storage, sampler=sampler, batch_size=1_000 * SLICE_LEN)
        for part in rollout(batch_size).split(6, dim=-1):
            buffer.extend(part)
        sample, info = buffer.sample(return_info=True)
        ends = info["next", "truncated"].flatten().nonzero().flatten() + 1
        lengths = ends.diff(prepend=ends.new_zeros(1)).tolist()
        sampled = set()
        for episodes, steps in zip(sample["episode"].split(lengths), sample["step"].split(lengths), strict=True):
            assert (episodes == episodes[0]).all() and (steps.diff() == 1).all()
            sampled.add((int(episodes[0]), int(steps[0]), len(steps)))
        assert sampled == possible_slices(batch_size, shortest, strict_length)
