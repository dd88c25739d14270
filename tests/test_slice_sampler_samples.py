"""Samples of IncrementalSliceSampler equal torchrl's, with padding and with given boundaries."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler, TensorDictReplayBuffer, TensorStorage

from rlrepro.fixes import IncrementalSliceSampler

from .test_slice_sampler import (
    SIDE_BY_SIDE,
    Stream,
    indexed_trajectories,
    make_buffer,
    torchrl_trajectories,
    transitions,
)


def both_samples(**options):
    """The samples that both samplers return for the same random numbers."""
    samples = []
    for cls in (SliceSampler, IncrementalSliceSampler):
        storage = LazyTensorStorage(100)
        buffer = ReplayBuffer(storage=storage, sampler=cls(**options), batch_size=30)
        buffer.extend(transitions([100]).set("is_init", torch.zeros(100, 1, dtype=torch.bool)))
        buffer.set_rng(torch.Generator().manual_seed(0))
        samples.append(buffer.sample(return_info=True))
    return samples


@pytest.mark.parametrize(
    "options",
    [
        {"slice_len": 5},
        {"num_slices": 6, "truncated_key": None},
        {"slice_len": 5, "truncated_key": "cut", "init_key": None},
        {"slice_len": 5, "span": True},
        {"slice_len": 5, "span": (2, False), "end_keys": [("next", "done"), ("next", "truncated")]},
        {"slice_len": 5, "cache_values": True},
    ],
)
def test_samples_and_information_are_torchrls(options):
    """With one trajectory, both draw the same numbers."""
    (expected, expected_info), (sample, info) = both_samples(**options)
    assert (sample == expected).all()
    assert info.keys() == expected_info.keys()
    for key in info:
        for tensor, expected_tensor in zip(info[key], expected_info[key], strict=True):
            assert torch.equal(tensor, expected_tensor), key


def test_short_trajectories_are_padded_as_torchrl_pads_them():
    options = {"slice_len": 10, "strict_length": False, "pad_output": True, "end_key": ("next", "done")}
    for cls in (SliceSampler, IncrementalSliceSampler):
        buffer = ReplayBuffer(storage=LazyTensorStorage(100), sampler=cls(**options), batch_size=30)
        buffer.extend(transitions([4]))
        sample, info = buffer.sample(return_info=True)
        assert sample["step"].tolist() == [0, 1, 2, 3, 3, 3, 3, 3, 3, 3] * 3
        assert info["collector", "mask"].reshape(3, 10).sum(1).tolist() == [4, 4, 4]


def test_the_mask_of_padding_always_exists():
    """torchrl pads if any trajectory is too short, even one that was not sampled."""
    options = {"slice_len": 4, "strict_length": False, "pad_output": True, "traj_key": "episode"}
    buffer = make_buffer(LazyTensorStorage(300), cls=TensorDictReplayBuffer, **options)
    buffer.extend(transitions([2] + [10] * 20))
    samples = torch.stack([buffer.sample() for _ in range(20)])
    assert samples["collector", "mask"].shape == (20, 8)


def padded_slices(cls, dimensions, writes, span):
    """Every slice of 3 in samples of a ring of 14 cells: (its cells, its mask)."""
    columns = SIDE_BY_SIDE if dimensions == 2 else 1
    options = {"end_key": ("next", "done"), "strict_length": False, "pad_output": True}
    storage = LazyTensorStorage(14 * columns, ndim=dimensions)
    buffer = ReplayBuffer(storage=storage, sampler=cls(slice_len=3, span=span, **options), batch_size=1800)
    buffer.set_rng(torch.Generator().manual_seed(0))
    stream = Stream(3, columns)
    for steps in writes:
        new = stream.take(steps, 0.4)
        buffer.extend(new[:, 0] if dimensions == 1 else new.transpose(0, 1).contiguous())
    slices = set()
    for _ in range(10):
        _, info = buffer.sample(return_info=True)
        cells = torch.stack(list(info["index"]), -1).reshape(600, -1)
        mask = info["collector", "mask"].reshape(600, 3)
        slices |= {*zip(map(tuple, cells.tolist()), map(tuple, mask.tolist()), strict=True)}
    return slices


@pytest.mark.parametrize("span", [False, (False, True), (True, False), True])
@pytest.mark.parametrize("writes", [(11,), (14,), (9, 8), (14, 14, 3)])
@pytest.mark.parametrize("dimensions", [1, 2])
def test_padding_lies_in_the_cells_in_use(dimensions, writes, span):
    """A slice without any step starts after the end of its trajectory: in an empty cell, if the last one is meant."""
    expected, slices = (padded_slices(cls, dimensions, writes, span) for cls in (SliceSampler, IncrementalSliceSampler))
    assert slices == expected


@pytest.mark.parametrize("argument", ["trajectories", "ends"])
def test_boundaries_can_be_passed(argument):
    data = transitions([30, 50, 20])
    value = data["episode"] if argument == "trajectories" else data["next", "done"].squeeze(-1)
    sampler = IncrementalSliceSampler(slice_len=4, cache_values=True, **{argument: value})
    storage = TensorStorage(data.exclude("episode", "next"))
    assert indexed_trajectories(sampler, storage, 4) == torchrl_trajectories(sampler, storage, 4)
    ReplayBuffer(storage=storage, sampler=sampler, batch_size=8).sample()


def stored_as(kind: str, lengths: list[int]) -> TensorDict:
    data = transitions(lengths)
    flags = data["next", "done"]
    data["flag"] = flags.to(torch.uint8) if kind == "uint8" else flags
    data["other"] = flags.roll(5) if kind == "two flags" else torch.zeros_like(flags)
    return data


@pytest.mark.parametrize("kind", ["bool", "a column", "uint8", "two flags"])
def test_flags_may_be_stored_in_any_form(kind):
    """Bool flags are read in place; other flags are read from a copy of the new ones."""
    storage = TensorStorage(stored_as(kind, [30, 50, 20]))
    if kind == "a column":
        storage._storage["flag"] = torch.zeros(100, 3, dtype=torch.bool)[:, 1:2].copy_(storage._storage["flag"])
    keys = ["flag", "other"] if kind == "two flags" else ["flag"]
    buffer = make_buffer(storage, slice_len=4, end_keys=keys, traj_key="no such entry")
    buffer._writer._cursor = 0
    trajectories = []
    for lengths in ([10, 22, 3, 5], [7, 33, 9], [12, 39]):
        buffer.extend(stored_as(kind, lengths))
        trajectories.append(indexed_trajectories(buffer.sampler, storage, 4))
        assert trajectories[-1] == torchrl_trajectories(buffer.sampler, storage, 4)
    assert buffer.sampler._tracked[storage].restarts == 1
    assert trajectories[0] != trajectories[1] != trajectories[2]
