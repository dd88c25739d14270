"""IncrementalSliceSampler against torchrl's own SliceSampler."""

import copy
import pickle

import numpy as np
import pytest
import torch
import torchrl.data
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from tensordict import TensorDict
from torchrl.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    SliceSampler,
    TensorDictReplayBuffer,
    TensorStorage,
)

from rlrepro.cases.slice_sampler import (
    buffers,
    workloads,
)
from rlrepro.fixes import IncrementalSliceSampler
from rlrepro.fixes.slice_sampler.trajectory_index import TrajectoryIndex
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


def buffer_of(storage, cls=ReplayBuffer, batch_size=8, **options):
    return cls(storage=storage, sampler=IncrementalSliceSampler(**options), batch_size=batch_size)


def torchrl_trajectories(sampler, storage, shortest):
    """(first cell, ..., length) of each trajectory that is long enough, as torchrl finds them."""
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


WRITES = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 5, 8, 20]), st.sampled_from([0.0, 0.1, 0.5]), st.booleans()),
    min_size=1,
    max_size=25,
)


@given(
    writes=WRITES,
    capacity=st.sampled_from([7, 20, 50]),
    dimensions=st.sampled_from([1, 2]),
    key=st.sampled_from([{"traj_key": "episode"}, {"end_key": ("next", "done")}]),
    slice_len=st.sampled_from([1, 2, 4]),
    is_strict=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_the_index_holds_what_torchrl_finds(writes, capacity, dimensions, key, slice_len, is_strict, seed):
    """Writes and samples in any order, past the end of the ring as well."""
    columns = SIDE_BY_SIDE if dimensions == 2 else 1
    storage = LazyTensorStorage(capacity * columns, ndim=dimensions)
    buffer = buffer_of(storage, slice_len=slice_len, strict_length=is_strict, **key)
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


def drawn_starts(cls, storage, times=150, **options):
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
    """A full ring, in which the trajectory written last is cut and so is the oldest one."""
    storage = make(40)
    buffer = buffer_of(storage, slice_len=2)
    for part in transitions([3, 9, 1, 5, 6, 1, 7, 8, 9, 4]).split(7):
        buffer.extend(part)
    table = np.stack(
        [drawn_starts(cls, storage, strict_length=is_strict) for cls in (IncrementalSliceSampler, SliceSampler)]
    )
    assert ((table[0] > 0) == (table[1] > 0)).all()
    assert chi2_contingency(table[:, table.any(0)]).pvalue > 0.001


def test_a_trajectory_is_cut_where_a_list_is_written():
    """torchrl joins the newest transition to the oldest: a storage of lists does not know where it was written."""
    storage = LISTS(10)
    buffer = buffer_of(storage, slice_len=2, end_key=("next", "done"))
    buffer.extend(transitions([13]))  # cells 0 to 2 are written twice
    assert torchrl_trajectories(buffer.sampler, storage, 2) == [(0, 10)]
    assert indexed_trajectories(buffer.sampler, storage, 2) == [(3, 10)]
    steps = torch.stack([buffer.sample()["step"].reshape(-1, 2) for _ in range(50)])
    assert (steps[..., 1] == steps[..., 0] + 1).all()


@pytest.mark.parametrize("make", [LazyTensorStorage, LazyMemmapStorage, LISTS])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_slices_hold_steps_that_follow(make, one_by_one):
    buffer = buffer_of(make(64), cls=TensorDictReplayBuffer, batch_size=40, num_slices=10, traj_key="episode")
    for turn in range(8):
        data = transitions([5, 4, 3, 11], first=4 * turn)
        for part in data if one_by_one else [data]:
            buffer.add(part) if one_by_one else buffer.extend(part)
        sample, info = buffer.sample(return_info=True)
        slices = sample.reshape(10, 4)
        assert (slices["step"].diff(dim=1) == 1).all()
        assert (slices["episode"] == slices["episode"][:, :1]).all()
        assert info["next", "truncated"].reshape(10, 4).tolist() == [[False, False, False, True]] * 10


def both_samples(**options):
    """What both samplers return for the same draws."""
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
        for one, other in zip(info[key], expected_info[key], strict=True):
            assert torch.equal(one, other), key


def test_short_trajectories_are_padded_as_torchrl_pads_them():
    options = {"slice_len": 10, "strict_length": False, "pad_output": True, "end_key": ("next", "done")}
    for cls in (SliceSampler, IncrementalSliceSampler):
        buffer = ReplayBuffer(storage=LazyTensorStorage(100), sampler=cls(**options), batch_size=30)
        buffer.extend(transitions([4]))
        sample, info = buffer.sample(return_info=True)
        assert sample["step"].tolist() == [0, 1, 2, 3, 3, 3, 3, 3, 3, 3] * 3
        assert info["collector", "mask"].reshape(3, 10).sum(1).tolist() == [4, 4, 4]


def test_the_mask_of_padding_is_always_there():
    """torchrl pads if any trajectory is too short, whichever were drawn."""
    options = {"slice_len": 4, "strict_length": False, "pad_output": True, "traj_key": "episode"}
    buffer = buffer_of(LazyTensorStorage(300), cls=TensorDictReplayBuffer, **options)
    buffer.extend(transitions([2] + [10] * 20))
    samples = torch.stack([buffer.sample() for _ in range(20)])
    assert samples["collector", "mask"].shape == (20, 8)


@pytest.mark.parametrize("argument", ["trajectories", "ends"])
def test_boundaries_can_be_passed(argument):
    data = transitions([30, 50, 20])
    value = data["episode"] if argument == "trajectories" else data["next", "done"].squeeze(-1)
    sampler = IncrementalSliceSampler(slice_len=4, cache_values=True, **{argument: value})
    storage = TensorStorage(data.exclude("episode", "next"))
    assert indexed_trajectories(sampler, storage, 4) == torchrl_trajectories(sampler, storage, 4)
    ReplayBuffer(storage=storage, sampler=sampler, batch_size=8).sample()


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_trajectory_may_wrap_around(dimensions):
    """If the cell written last is unknown, torchrl lets a trajectory continue from the last cell to the first."""
    columns = SIDE_BY_SIDE if dimensions == 2 else 1
    filled, storage = (LazyTensorStorage(40 * columns, ndim=dimensions) for _ in range(2))
    data = Stream(1, SIDE_BY_SIDE).take(40, 0.1)
    buffer_of(filled, slice_len=3).extend(data[:, 0] if dimensions == 1 else data.transpose(0, 1).contiguous())
    storage.load_state_dict(filled.state_dict())
    sampler = IncrementalSliceSampler(slice_len=3, end_key=("next", "done"))
    expected = torchrl_trajectories(sampler, storage, 3)
    assert any(first + length > 40 for first, *_, length in expected)
    assert indexed_trajectories(sampler, storage, 3) == expected
    sampler.sample(storage, 30)


def is_current(buffer, slice_len=2):
    """Whether the index holds what torchrl finds in the storage as it is now."""
    storage, sampler = buffer._storage, buffer.sampler
    return indexed_trajectories(sampler, storage, slice_len) == torchrl_trajectories(sampler, storage, slice_len)


def changed_by(change, buffer, folder):
    """Change the storage in a way that is not a write at the head of the ring."""
    storage, new = buffer._storage, transitions([2, 2, 1], first=90)
    match change:
        case "write_at":
            buffer._writer.write_at(torch.tensor([9, 3, 17, 4, 5]), new)
        case "the storage itself":
            storage.set(slice(3, 8), new, set_cursor=False)
        case "set an item":
            storage[torch.tensor([9, 3, 17, 4, 5])] = new
        case "empty":
            buffer.empty()
            buffer.extend(new)
        case "another buffer":
            ReplayBuffer(storage=storage, batch_size=4).extend(new)
        case "dumps and loads":
            other = buffer_of(LazyMemmapStorage(20), slice_len=2)
            other.extend(transitions([4, 9, 7], first=30))
            other.dumps(folder)
            buffer.loads(folder)
        case "a state dict":
            other = buffer_of(LazyMemmapStorage(20), slice_len=2)
            other.extend(transitions([4, 9, 3], first=30))
            buffer.load_state_dict(other.state_dict())


def test_a_list_overwritten_at_its_head():
    """A write where the next one would go, which does not move the writer."""
    buffer = buffer_of(LISTS(20), slice_len=2, end_key=("next", "done"))
    buffer.extend(transitions([13]))
    buffer.extend(transitions([12]))
    buffer.sample()
    buffer._writer.write_at(torch.tensor([5, 6]), transitions([2]))
    assert (5, 20) in indexed_trajectories(buffer.sampler, buffer._storage, 2)


def test_an_empty_write_changes_nothing():
    buffer = buffer_of(LazyTensorStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([9]))
    buffer.sample()
    buffer.sampler.mark_update(torch.tensor([], dtype=torch.long), storage=buffer._storage)
    assert is_current(buffer)


def test_another_key_gets_another_index():
    buffer = buffer_of(LazyTensorStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([9, 8]).set("half", torch.arange(17) // 3))
    buffer.sample()
    buffer.sampler.traj_key = "half"
    assert is_current(buffer)


def test_tensors_changed_behind_torchrls_back_need_forget():
    buffer = buffer_of(LazyTensorStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([9, 8]))
    buffer.sample()
    buffer._storage._storage["episode"][:17] = torch.arange(17) // 3
    assert not is_current(buffer)
    buffer.sampler.forget()
    assert is_current(buffer)


@pytest.mark.slow
def test_it_is_left_out_of_compilation():
    storage = LazyTensorStorage(50, compilable=True)
    sampler = IncrementalSliceSampler(slice_len=4, traj_key="episode")
    buffer = ReplayBuffer(storage=storage, sampler=sampler, batch_size=8, compilable=True)
    sample = torch.compile(buffer.sample, backend="eager")
    for turn in range(8):
        buffer.extend(transitions([3, 8, 5], first=3 * turn))
        sample()
    assert is_current(buffer, 4)


@pytest.mark.parametrize("steps", [11, 20, 33])
@pytest.mark.parametrize(
    "change",
    [
        "write_at",
        "the storage itself",
        "set an item",
        "empty",
        "another buffer",
        "dumps and loads",
        "a state dict",
    ],
)
def test_any_change_is_noticed(change, steps, tmp_path):
    buffer = buffer_of(LazyMemmapStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([steps // 2, steps - steps // 2]))
    buffer.sample()
    changed_by(change, buffer, tmp_path)
    assert is_current(buffer)
    for _ in range(9):
        buffer.extend(transitions([3], first=50))
        assert is_current(buffer)


def write_in_a_child(buffer, steps):
    buffer.extend(transitions([steps], first=70))


@pytest.mark.slow
def test_what_another_process_writes_is_noticed():
    storage = LazyMemmapStorage(30)
    buffer = buffer_of(storage, slice_len=2, traj_key="episode")
    buffer.extend(transitions([4, 5]))
    buffer.sample()
    child = torch.multiprocessing.get_context("spawn").Process(target=write_in_a_child, args=(buffer, 6))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert len(buffer) == 15
    assert is_current(buffer)
    assert (9, 6) in indexed_trajectories(buffer.sampler, storage, 2)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))])
def test_a_copy_samples_on_its_own(copied):
    buffer = buffer_of(LazyTensorStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([4, 5]))
    buffer.sample()
    other = ReplayBuffer(storage=LazyTensorStorage(20), sampler=copied(buffer.sampler), batch_size=4)
    other.extend(transitions([3, 3]))
    assert is_current(other)
    assert is_current(buffer)


def test_samples_repeat_with_a_seed():
    first, second = (buffer_of(LazyTensorStorage(50), slice_len=2, traj_key="episode") for _ in range(2))
    for buffer in (first, second):
        buffer.set_rng(torch.Generator().manual_seed(3))
    for turn in range(10):
        data = transitions([3, 4, 2], first=3 * turn)
        assert (first.extend(data.clone()) == second.extend(data.clone())).all()
        torch.rand(turn)  # torch's own generator has no effect
        assert (first.sample() == second.sample()).all()


def test_sampling_ahead_while_writing():
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(200),
        sampler=IncrementalSliceSampler(slice_len=4, traj_key="episode"),
        batch_size=40,
        prefetch=3,
    )
    for turn in range(60):
        buffer.extend(transitions([7, 9], first=2 * turn))
        slices = buffer.sample().reshape(10, 4)
        assert (slices["step"].diff(dim=1) == 1).all()
    assert is_current(buffer, 4)


def test_another_length_of_slices_has_an_index_of_its_own():
    buffer = buffer_of(LazyTensorStorage(60), num_slices=2, traj_key="episode")
    buffer.extend(transitions([3, 8, 5, 13]))
    for turn, batch_size in enumerate((4, 8, 16, 4, 26, 2, 8)):
        slices = buffer.sample(batch_size).reshape(2, -1)
        assert (slices["step"].diff(dim=1) == 1).all()
        buffer.extend(transitions([3], first=10 + turn))


def test_can_sample_counts_the_windows():
    for is_strict in (True, False):
        incremental, torchrl_own = (
            ReplayBuffer(
                storage=LazyTensorStorage(30),
                sampler=cls(slice_len=4, traj_key="episode", strict_length=is_strict),
                batch_size=8,
            )
            for cls in (IncrementalSliceSampler, SliceSampler)
        )
        for buffer in (incremental, torchrl_own):
            assert not buffer.sampler.can_sample(buffer._storage, 8)
            buffer.extend(transitions([3, 8, 5]))
        counts = [each.sampler._sampleable_count(each._storage, 8) for each in (incremental, torchrl_own)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("is_padded", [False, True])
def test_what_reads_every_trajectory(monkeypatch, is_padded):
    """Only a sample of padded slices does; can_sample never does."""
    options = {"strict_length": False, "pad_output": True} if is_padded else {}
    buffer = buffer_of(LazyTensorStorage(400), slice_len=2, traj_key="episode", **options)
    buffer.extend(transitions([4] * 100))
    asked, at = [], TrajectoryIndex.at
    monkeypatch.setattr(TrajectoryIndex, "at", lambda index, which: asked.append(len(which)) or at(index, which))
    assert buffer.sampler.can_sample(buffer._storage, 8) and asked == []
    buffer.sampler.sample(buffer._storage, 8)
    assert asked == [100 if is_padded else 4]


# Costs: bytes, which are the same in each run.


def moved_after_a_write(stored, name):
    """Bytes that operators read and write for one sample."""
    filled = buffers.buffer(stored, stored + 50_000)
    buffer = buffers.with_sampler(filled, buffers.sampler(name))
    buffer.sample()
    filled.extend(buffers.transitions(stored, workloads.WRITE_SIZE))
    with workloads.Moved() as moved:
        buffer.sampler.sample(buffer._storage, 1024)
    return moved.bytes


@pytest.mark.slow
def test_a_sample_after_a_write_reads_what_was_written():
    incremental = [moved_after_a_write(stored, "ours") for stored in (10_000, 1_000_000)]
    cached = [moved_after_a_write(stored, "episode cached") for stored in (10_000, 1_000_000)]
    assert incremental[1] == incremental[0] < 200_000
    assert cached[1] > 30 * cached[0]


def test_the_index_takes_a_few_bytes_per_trajectory():
    index = workloads.index_bytes(2_000_000, 2_000_000)
    assert index["trajectories"] == 4_000
    assert 16 * 4_000 <= index["bytes"] <= 32 * 4_000


def test_the_index_does_not_grow_while_the_ring_wraps_around():
    buffer = buffer_of(LazyTensorStorage(1_000), slice_len=2, traj_key="episode")
    for turn in range(100):
        buffer.extend(transitions([5] * 50, first=50 * turn))
        buffer.sample()
    assert buffer.sampler.index_bytes <= 32 * 200 + 8


# Bad input


@pytest.mark.parametrize("argument", ["compile", "use_gpu", "fragmented"])
def test_an_unsupported_argument_is_named(argument):
    with pytest.raises(NotImplementedError, match=argument):
        IncrementalSliceSampler(slice_len=2, **{argument: True})


def test_an_unknown_argument():
    with pytest.raises(TypeError, match="slice_length"):
        IncrementalSliceSampler(slice_length=2)


def test_sampling_without_replacement_is_another_class():
    made = IncrementalSliceSampler(slice_len=2, replacement=False)
    assert type(made).__name__ == "IncrementalSliceSamplerWithoutReplacement"


@pytest.mark.parametrize("is_emptied", [False, True])
def test_an_empty_buffer(is_emptied):
    buffer = buffer_of(LazyTensorStorage(20), slice_len=2)
    if is_emptied:
        buffer.extend(transitions([5]))
        buffer.empty()
    with pytest.raises(RuntimeError, match="empty; extend it first"):
        buffer.sample()


def test_a_list_with_no_trajectory_long_enough_gives_no_sample_across_its_head():
    buffer = buffer_of(LISTS(10), batch_size=6, slice_len=6, end_key=("next", "done"))
    buffer.extend(transitions([8, 5]))
    assert not buffer.sampler.can_sample(buffer._storage, 6)
    with pytest.raises(RuntimeError, match="length range: 5 - 5 / required=6"):
        buffer.sample()


def test_missing_end_keys_fall_back_to_ids():
    buffer = buffer_of(LazyTensorStorage(20), slice_len=2, end_keys=["no such entry"])
    buffer.extend(transitions([9, 8]))
    assert indexed_trajectories(buffer.sampler, buffer._storage, 2) == [(0, 9), (9, 8)]
    assert is_current(buffer)


def test_slices_longer_than_every_trajectory():
    buffer = buffer_of(LazyTensorStorage(20), slice_len=8, traj_key="episode")
    buffer.extend(transitions([5, 7]))
    with pytest.raises(RuntimeError, match=r"5 - 7 / required=8.*strict_length=False"):
        buffer.sample()
    buffer.extend(transitions([8], first=2))
    assert (buffer.sample()["episode"] == 2).all()


def test_a_batch_that_is_not_a_multiple_of_the_slices():
    buffer = buffer_of(LazyTensorStorage(20), slice_len=3)
    buffer.extend(transitions([9]))
    with pytest.raises(RuntimeError, match="batch_size=8 and slice_len=3"):
        buffer.sample()


def test_neither_ids_nor_flags():
    buffer = buffer_of(LazyTensorStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([9]).select("step"))
    with pytest.raises(RuntimeError, match="none of 'episode' is in the storage; name an"):
        buffer.sample()


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (torch.zeros(9, 5, dtype=torch.int64), r"\(time, 5\)"),
        (torch.zeros(9, dtype=torch.complex64), "torch.complex64"),
    ],
)
def test_ids_that_are_not_one_number_per_transition(values, shown):
    buffer = buffer_of(LazyTensorStorage(20), slice_len=2, traj_key="id")
    buffer.extend(TensorDict({"id": values}, [9]))
    with pytest.raises(RuntimeError, match=rf"'id' must hold .*; found {shown}"):
        buffer.sample()


def test_a_storage_without_entries():
    buffer = buffer_of(ListStorage(20), slice_len=2)
    buffer.extend(list(range(9)))
    with pytest.raises(RuntimeError, match="Could not get a tensordict"):
        buffer.sample()


# Other releases, down to the one with the bug


def index_stays_current(seed: int) -> int:
    """How many trajectories were compared with what that release finds, over writes that wrap around the ring."""
    compared = 0
    for columns, key in ((1, {"traj_key": "episode"}), (SIDE_BY_SIDE, {"end_key": ("next", "done")})):
        storage = LazyTensorStorage(40 * columns, ndim=1 if columns == 1 else 2)
        buffer = buffer_of(storage, slice_len=2, **key)
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
