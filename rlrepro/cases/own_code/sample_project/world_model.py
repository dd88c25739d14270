"""Sequences for a world model, drawn while the data set grows."""

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler

EPISODE = 500  # timesteps
WRITTEN = 1_000_000  # timesteps at a time
TIMES = 6


def episodes(first):
    number = torch.arange(first, first + WRITTEN)
    return TensorDict({"observation": torch.zeros(WRITTEN, 3), "episode": number // EPISODE}, [WRITTEN])


def train():
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(WRITTEN * TIMES),
        sampler=SliceSampler(num_slices=256, traj_key="episode"),
        batch_size=1024,
    )
    for time in range(TIMES):
        buffer.extend(episodes(time * WRITTEN))
        for _ in range(10):
            buffer.sample()


if __name__ == "__main__":
    train()
