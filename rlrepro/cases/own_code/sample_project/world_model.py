"""Sequences for a world model, drawn while the data set grows."""

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler

EPISODE = 500  # timesteps
WRITTEN = 1_000_000  # timesteps at a time
WRITES = 6


def episodes(first):
    timesteps = torch.arange(first, first + WRITTEN)
    return TensorDict({"observation": torch.zeros(WRITTEN, 3), "episode": timesteps // EPISODE}, [WRITTEN])


def train():
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(WRITTEN * WRITES),
        sampler=SliceSampler(num_slices=256, traj_key="episode"),
        batch_size=1024,
    )
    for write in range(WRITES):
        buffer.extend(episodes(write * WRITTEN))
        for _ in range(10):
            buffer.sample()


if __name__ == "__main__":
    train()
