"""IncrementalSliceSampler against torchrl's own SliceSampler."""

import numpy as np
import pytest
import torch
import torchrl.data
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from tensordict import TensorDict
from torchrl.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer, SliceSampler, TensorDictReplayBuffer

from rlrepro.cases.slice_sampler import buffers, workloads
from rlrepro.fixes import IncrementalSliceSampler
from rlrepro.lab import Release

SIDE_BY_SIDE = 3  # environments in a storage of two dimensions


def transitions(lengths, first=0) -> TensorDict:
    """One trajectory of each length after another, all but the last one done."""
    steps = sum(lengths)
    ends = np.cumsum(lengths) - 1
    done = torch.zeros(steps, 1, dtype=torch.bool)
    done[ends[:-1]] = True
    episode = torch.repeat_interleave(torch.arange(len(lengths)) + first, torch.tensor(lengths))
    return TensorDict({"episode": episode, "step": torch.arange(steps), "next": {"done": done}}, [steps])


LISTS = getattr(torchrl.data, "LazyStackStorage", None)  # not in the oldest releases


class Stream:
    """Transitions of several environments that continue from one call to the next."""

    def __init__(self, seed: int, columns: int):
        self.random, self.episode, self.columns = np.random.default_rng(seed), np.zeros(columns, dtype=int), columns

    def take(self, steps: int, done_rate: float) -> TensorDict:
        done = self.random.random((steps, self.columns)) < done_rate
        episode = self.episode + np.cumsum(done, 0) - done
        self.episode = self.episode + done.sum(0)
        fields = {"episode": torch.tensor(episode), "next": {"done": torch.tensor(done).unsqueeze(-1)}}
        return TensorDict(fields, [steps, self.columns])


def make_buffer(storage, cls=ReplayBuffer, batch_size=8, **options):
    return cls(storage=storage, sampler=IncrementalSliceSampler(**options), batch_size=batch_size)


def torchrl_trajectories(sampler, storage, shortest):
    """(first cell, ..., length) of each trajectory that is long enough, according to torchrl."""
    starts, _, lengths = SliceSampler._get_stop_and_length(sampler, storage)
    is_long = lengths >= shortest
    return sorted(
        (*start, length) for start, length in zip(starts[is_long].tolist(), lengths[is_long].tolist(), strict=True)
    )


def indexed_trajectories(sampler, storage, shortest):
    index = sampler._index(storage, shortest if sampler.strict_length else 1)
    times, columns, lengths = index.at(np.arange(len(index)))
    cells = [times % index.capacity]
    if storage.ndim > 1:
        cells.append(columns)
    return sorted(map(tuple, np.stack([*cells, lengths], 1).tolist()))


def is_current(buffer, slice_len=2):
    """Whether the index holds the trajectories that torchrl finds in the storage in its current state."""
    storage, sampler = buffer._storage, buffer.sampler
    return indexed_trajectories(sampler, storage, slice_len) == torchrl_trajectories(sampler, storage, slice_len)


WRITES = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 5, 8, 20]), st.sampled_from([0.0, 0.1, 0.5]), st.booleans()),
    min_size=1,
    max_size=25,
)


@settings(deadline=None)
@given(
    writes=WRITES,
    capacity=st.sampled_from([7, 20, 50]),
    dimensions=st.sampled_from([1, 2]),
    key=st.sampled_from([{"traj_key": "episode"}, {"end_key": ("next", "done")}]),
    slice_len=st.sampled_from([1, 2, 4]),
    is_strict=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_the_index_holds_the_trajectories_that_torchrl_finds(
    writes, capacity, dimensions, key, slice_len, is_strict, seed
):
    """Writes and samples in any order, past the end of the ring as well."""
    columns = SIDE_BY_SIDE if dimensions == 2 else 1
    storage = LazyTensorStorage(capacity * columns, ndim=dimensions)
    buffer = make_buffer(storage, slice_len=slice_len, strict_length=is_strict, **key)
    stream = Stream(seed, columns)
    for steps, done_rate, is_sampled in writes:
        new = stream.take(steps, done_rate)
        buffer.extend(new[:, 0] if dimensions == 1 else new.transpose(0, 1).contiguous())
        if not is_sampled or storage.shape[0] == 1 or len(storage) == columns:
            continue  # torchrl can't tell the end of a single step
        shortest = slice_len if is_strict else 1
        expected = torchrl_trajectories(buffer.sampler, storage, shortest)
        assert indexed_trajectories(buffer.sampler, storage, slice_len) == expected
        if expected:
            buffer.sample()


def sampled_starts(cls, storage, times=150, **options):
    """The first cell of each slice of many samples."""
    sampler = cls(slice_len=2, traj_key="episode", **options)
    sampler._rng = torch.Generator().manual_seed(0)
    starts = []
    for _ in range(times):
        (cells,), info = sampler.sample(storage, 200)
        ends = info["next", "truncated"].squeeze(-1)
        starts.append(cells[torch.cat([torch.tensor([True]), ends[:-1]])])
    return torch.cat(starts).bincount(minlength=len(storage))


@pytest.mark.parametrize("is_strict", [True, False])
@pytest.mark.parametrize("make", [LazyTensorStorage, LazyMemmapStorage])
def test_starts_are_drawn_as_torchrl_draws_them(make, is_strict):
    """A full ring; the trajectory written last and the oldest one are both cut."""
    storage = make(40)
    buffer = make_buffer(storage, slice_len=2)
    for chunk in transitions([3, 9, 1, 5, 6, 1, 7, 8, 9, 4]).split(7):
        buffer.extend(chunk)
    table = np.stack(
        [sampled_starts(cls, storage, strict_length=is_strict) for cls in (IncrementalSliceSampler, SliceSampler)]
    )
    assert ((table[0] > 0) == (table[1] > 0)).all()
    assert chi2_contingency(table[:, table.any(0)]).pvalue > 0.001


def test_a_trajectory_is_cut_where_a_list_is_written():
    """torchrl joins the newest transition to the oldest: a storage of lists does not know where it was written."""
    storage = LISTS(10)
    buffer = make_buffer(storage, slice_len=2, end_key=("next", "done"))
    buffer.extend(transitions([13]))  # cells 0 to 2 are written twice
    assert torchrl_trajectories(buffer.sampler, storage, 2) == [(0, 10)]
    assert indexed_trajectories(buffer.sampler, storage, 2) == [(3, 10)]
    steps = torch.stack([buffer.sample()["step"].reshape(-1, 2) for _ in range(50)])
    assert (steps[..., 1] == steps[..., 0] + 1).all()


@pytest.mark.parametrize("make", [LazyTensorStorage, LazyMemmapStorage, LISTS])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_slices_hold_consecutive_steps(make, one_by_one):
    buffer = make_buffer(make(64), cls=TensorDictReplayBuffer, batch_size=40, num_slices=10, traj_key="episode")
    for round_index in range(8):
        data = transitions([5, 4, 3, 11], first=4 * round_index)
        for piece in data if one_by_one else [data]:
            buffer.add(piece) if one_by_one else buffer.extend(piece)
        sample, info = buffer.sample(return_info=True)
        slices = sample.reshape(10, 4)
        assert (slices["step"].diff(dim=1) == 1).all()
        assert (slices["episode"] == slices["episode"][:, :1]).all()
        assert info["next", "truncated"].reshape(10, 4).tolist() == [[False, False, False, True]] * 10


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_trajectory_may_wrap_around(dimensions):
    """If the cell written last is unknown, torchrl lets a trajectory continue from the last cell to the first."""
    columns = SIDE_BY_SIDE if dimensions == 2 else 1
    filled, storage = (LazyTensorStorage(40 * columns, ndim=dimensions) for _ in range(2))
    data = Stream(1, SIDE_BY_SIDE).take(40, 0.1)
    make_buffer(filled, slice_len=3).extend(data[:, 0] if dimensions == 1 else data.transpose(0, 1).contiguous())
    storage.load_state_dict(filled.state_dict())
    sampler = IncrementalSliceSampler(slice_len=3, end_key=("next", "done"))
    expected = torchrl_trajectories(sampler, storage, 3)
    assert any(first + length > 40 for first, *_, length in expected)
    assert indexed_trajectories(sampler, storage, 3) == expected
    sampler.sample(storage, 30)


# Costs in bytes, which are the same in each run.


def bytes_moved_after_a_write(stored, name):
    """Bytes that operators read and write for one sample."""
    filled = buffers.buffer(stored, stored + 50_000)
    buffer = buffers.with_sampler(filled, buffers.sampler(name))
    buffer.sample()
    filled.extend(buffers.transitions(stored, workloads.WRITE_SIZE))
    with workloads.Moved() as moved:
        buffer.sampler.sample(buffer._storage, 1024)
    return moved.bytes


@pytest.mark.slow
def test_a_sample_after_a_write_reads_only_the_new_transitions():
    incremental = [bytes_moved_after_a_write(stored, "ours") for stored in (10_000, 1_000_000)]
    cached = [bytes_moved_after_a_write(stored, "episode cached") for stored in (10_000, 1_000_000)]
    assert incremental[1] == incremental[0] < 200_000
    assert cached[1] > 30 * cached[0]


def test_the_index_takes_a_few_bytes_per_trajectory():
    index = workloads.index_bytes(2_000_000, 2_000_000)
    assert index["trajectories"] == 4_000
    assert 16 * 4_000 <= index["bytes"] <= 32 * 4_000


def test_the_index_does_not_grow_while_the_ring_wraps_around():
    buffer = make_buffer(LazyTensorStorage(1_000), slice_len=2, traj_key="episode")
    for round_index in range(100):
        buffer.extend(transitions([5] * 50, first=50 * round_index))
        buffer.sample()
    assert buffer.sampler.index_bytes <= 32 * 200 + 8


# Other releases, down to the one with the bug


def index_stays_current(seed: int) -> int:
    """The number of trajectories compared with those of that release, over writes that wrap around the ring."""
    compared = 0
    for columns, key in ((1, {"traj_key": "episode"}), (SIDE_BY_SIDE, {"end_key": ("next", "done")})):
        storage = LazyTensorStorage(40 * columns, ndim=1 if columns == 1 else 2)
        buffer = make_buffer(storage, slice_len=2, **key)
        stream = Stream(seed, columns)
        for steps in (5, 3, 20, 1, 7, 9, 13, 2, 38, 6):
            new = stream.take(steps, 0.2)
            buffer.extend(new[:, 0] if columns == 1 else new.transpose(0, 1).contiguous())
            buffer.sample()
            expected = torchrl_trajectories(buffer.sampler, storage, 2)
            assert indexed_trajectories(buffer.sampler, storage, 2) == expected
            compared += len(expected)
    return compared


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.6.0", "0.8.1", "0.13.3"])
def test_it_works_in_other_releases(version):
    with Release(f"torchrl=={version}") as release:
        assert sum(release.run(index_stays_current, seed) for seed in range(5)) > 100
