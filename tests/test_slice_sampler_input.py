"""IncrementalSliceSampler on bad input: the error names the problem, or torchrl's own behaviour is kept."""

import re
import sys

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ListStorage
from torchrl.data.replay_buffers import samplers

from rlrepro.fixes import IncrementalSliceSampler, slice_sampler

from .test_slice_sampler import LISTS, indexed_trajectories, is_current, make_buffer, transitions


@pytest.mark.parametrize("argument", ["compile", "use_gpu", "fragmented"])
def test_an_unsupported_argument_is_named(argument):
    with pytest.raises(NotImplementedError, match=argument):
        IncrementalSliceSampler(slice_len=2, **{argument: True})


def test_an_unknown_argument():
    with pytest.raises(TypeError, match="slice_length"):
        IncrementalSliceSampler(slice_length=2)


def test_sampling_without_replacement_is_another_class():
    sampler = IncrementalSliceSampler(slice_len=2, replacement=False)
    assert type(sampler).__name__ == "IncrementalSliceSamplerWithoutReplacement"


@pytest.mark.parametrize(
    "name, module",
    [("PrioritizedSliceSampler", "prioritized"), ("SliceSamplerWithoutReplacement", "without_replacement")],
)
def test_a_torchrl_without_the_sampler_is_named_with_those_that_have_it(name, module, monkeypatch):
    monkeypatch.delattr(samplers, name)
    monkeypatch.delitem(vars(slice_sampler), f"Incremental{name}", raising=False)  # another test may have loaded it
    monkeypatch.delitem(sys.modules, f"{slice_sampler.__name__}.{module}", raising=False)
    with pytest.raises(ImportError, match=rf"Incremental{name} was tested with torchrl .*; found .*'{name}'"):
        getattr(slice_sampler, f"Incremental{name}")


def test_a_torchrl_without_priorities_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchrl._torchrl", None)
    with pytest.raises(ImportError, match=f"does not load with torch {re.escape(torch.__version__)}; install"):
        slice_sampler.IncrementalPrioritizedSliceSampler(8, 1.0, 1.0, slice_len=2)


@pytest.mark.parametrize("is_emptied", [False, True])
def test_an_empty_buffer(is_emptied):
    buffer = make_buffer(LazyTensorStorage(20), slice_len=2)
    if is_emptied:
        buffer.extend(transitions([5]))
        buffer.empty()
    with pytest.raises(RuntimeError, match="empty; extend it first"):
        buffer.sample()


def test_a_list_without_a_trajectory_that_is_long_enough_is_not_sampled_across_its_head():
    buffer = make_buffer(LISTS(10), batch_size=6, slice_len=6, end_key=("next", "done"))
    buffer.extend(transitions([8, 5]))
    assert not buffer.sampler.can_sample(buffer._storage, 6)
    with pytest.raises(RuntimeError, match="length range: 5 - 5 / required=6"):
        buffer.sample()


def test_missing_end_keys_fall_back_to_ids():
    buffer = make_buffer(LazyTensorStorage(20), slice_len=2, end_keys=["no such entry"])
    buffer.extend(transitions([9, 8]))
    assert indexed_trajectories(buffer.sampler, buffer._storage, 2) == [(0, 9), (9, 8)]
    assert is_current(buffer)


def test_slices_longer_than_every_trajectory():
    buffer = make_buffer(LazyTensorStorage(20), slice_len=8, traj_key="episode")
    buffer.extend(transitions([5, 7]))
    with pytest.raises(RuntimeError, match=r"5 - 7 / required=8.*strict_length=False"):
        buffer.sample()
    buffer.extend(transitions([8], first=2))
    assert (buffer.sample()["episode"] == 2).all()


def test_slices_longer_than_the_ring():
    buffer = make_buffer(LazyTensorStorage(5), slice_len=6, traj_key="episode")
    for _ in range(4):
        buffer.extend(transitions([3], first=7))
        assert not buffer.sampler.can_sample(buffer._storage, 6)
    buffer.extend(transitions([2, 1], first=9))
    assert len(buffer.sampler._index(buffer._storage, 1)) == 3


def test_a_batch_that_is_not_a_multiple_of_the_slices():
    buffer = make_buffer(LazyTensorStorage(20), slice_len=3)
    buffer.extend(transitions([9]))
    with pytest.raises(RuntimeError, match="batch_size=8 and slice_len=3"):
        buffer.sample()


def test_neither_ids_nor_flags():
    buffer = make_buffer(LazyTensorStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([9]).select("step"))
    for _ in range(2):
        assert not buffer.sampler.can_sample(buffer._storage, 8)
        with pytest.raises(RuntimeError, match="none of 'episode' is in the storage; choose an"):
            buffer.sample()


@pytest.mark.parametrize(
    ("values", "description"),
    [
        (torch.zeros(9, 5, dtype=torch.int64), r"\(time, 5\)"),
        (torch.zeros(9, dtype=torch.complex64), "torch.complex64"),
    ],
)
def test_ids_that_are_not_one_number_per_transition(values, description):
    buffer = make_buffer(LazyTensorStorage(20), slice_len=2, traj_key="id")
    buffer.extend(TensorDict({"id": values}, [9]))
    with pytest.raises(RuntimeError, match=rf"'id' must hold .*; found {description}"):
        buffer.sample()


def test_a_storage_without_entries():
    buffer = make_buffer(ListStorage(20), slice_len=2)
    buffer.extend(list(range(9)))
    with pytest.raises(RuntimeError, match="Could not get a tensordict"):
        buffer.sample()
