"""IncrementalSliceSampler notices what is done to its buffer, by whom and however it is done."""

import copy
import pickle

import pytest
import torch
from torchrl.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer, SliceSampler

from rlrepro.fixes import IncrementalSliceSampler
from rlrepro.fixes.slice_sampler.trajectory_index import TrajectoryIndex

from .test_slice_sampler import LISTS, buffer_of, indexed_trajectories, is_current, transitions


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
