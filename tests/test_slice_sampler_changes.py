"""IncrementalSliceSampler notices every change of its buffer, whatever makes it."""

import copy
import pickle

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer, SliceSampler

from rlrepro.fixes import IncrementalSliceSampler
from rlrepro.fixes.slice_sampler.trajectory_index import TrajectoryIndex

from .test_slice_sampler import LISTS, indexed_trajectories, is_current, make_buffer, transitions


def apply_change(change, buffer, folder):
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
            source = make_buffer(LazyMemmapStorage(20), slice_len=2)
            source.extend(transitions([4, 9, 7], first=30))
            source.dumps(folder)
            buffer.loads(folder)
        case "a state dict":
            source = make_buffer(LazyMemmapStorage(20), slice_len=2)
            source.extend(transitions([4, 9, 3], first=30))
            buffer.load_state_dict(source.state_dict())


def test_a_list_overwritten_at_its_head():
    """A write at the position of the next one, which does not move the writer."""
    buffer = make_buffer(LISTS(20), slice_len=2, end_key=("next", "done"))
    buffer.extend(transitions([13]))
    buffer.extend(transitions([12]))
    buffer.sample()
    buffer._writer.write_at(torch.tensor([5, 6]), transitions([2]))
    assert (5, 20) in indexed_trajectories(buffer.sampler, buffer._storage, 2)


def test_an_empty_write_changes_nothing():
    buffer = make_buffer(LazyTensorStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([9]))
    buffer.sample()
    buffer.sampler.mark_update(torch.tensor([], dtype=torch.long), storage=buffer._storage)
    assert is_current(buffer)


def test_another_key_gets_another_index():
    buffer = make_buffer(LazyTensorStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([9, 8]).set("half", torch.arange(17) // 3))
    buffer.sample()
    buffer.sampler.traj_key = "half"
    assert is_current(buffer)


def test_tensors_changed_behind_torchrls_back_need_forget():
    buffer = make_buffer(LazyTensorStorage(20), slice_len=2, traj_key="episode")
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
    for round_index in range(8):
        buffer.extend(transitions([3, 8, 5], first=3 * round_index))
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
    buffer = make_buffer(LazyMemmapStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([steps // 2, steps - steps // 2]))
    buffer.sample()
    apply_change(change, buffer, tmp_path)
    assert is_current(buffer)
    for _ in range(9):
        buffer.extend(transitions([3], first=50))
        assert is_current(buffer)


def write_in_a_child(buffer, steps):
    buffer.extend(transitions([steps], first=70))


@pytest.mark.slow
def test_writes_of_another_process_are_noticed():
    storage = LazyMemmapStorage(30)
    buffer = make_buffer(storage, slice_len=2, traj_key="episode")
    buffer.extend(transitions([4, 5]))
    buffer.sample()
    child = torch.multiprocessing.get_context("spawn").Process(target=write_in_a_child, args=(buffer, 6))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert len(buffer) == 15
    assert is_current(buffer)
    assert (9, 6) in indexed_trajectories(buffer.sampler, storage, 2)


@pytest.mark.parametrize("make_copy", [copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))])
def test_a_copy_samples_on_its_own(make_copy):
    buffer = make_buffer(LazyTensorStorage(20), slice_len=2, traj_key="episode")
    buffer.extend(transitions([4, 5]))
    buffer.sample()
    second = ReplayBuffer(storage=LazyTensorStorage(20), sampler=make_copy(buffer.sampler), batch_size=4)
    second.extend(transitions([3, 3]))
    assert is_current(second)
    assert is_current(buffer)


def test_samples_repeat_with_a_seed():
    first, second = (make_buffer(LazyTensorStorage(50), slice_len=2, traj_key="episode") for _ in range(2))
    for buffer in (first, second):
        buffer.set_rng(torch.Generator().manual_seed(3))
    for round_index in range(10):
        data = transitions([3, 4, 2], first=3 * round_index)
        assert (first.extend(data.clone()) == second.extend(data.clone())).all()
        torch.rand(round_index)  # torch's own generator has no effect
        assert (first.sample() == second.sample()).all()


def test_sampling_ahead_while_writing():
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(200),
        sampler=IncrementalSliceSampler(slice_len=4, traj_key="episode"),
        batch_size=40,
        prefetch=3,
    )
    for round_index in range(60):
        buffer.extend(transitions([7, 9], first=2 * round_index))
        slices = buffer.sample().reshape(10, 4)
        assert (slices["step"].diff(dim=1) == 1).all()
    assert is_current(buffer, 4)


def test_another_slice_length_has_its_own_index():
    buffer = make_buffer(LazyTensorStorage(60), num_slices=2, traj_key="episode")
    buffer.extend(transitions([3, 8, 5, 13]))
    for round_index, batch_size in enumerate((4, 8, 16, 4, 26, 2, 8)):
        slices = buffer.sample(batch_size).reshape(2, -1)
        assert (slices["step"].diff(dim=1) == 1).all()
        buffer.extend(transitions([3], first=10 + round_index))


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
        counts = [replay.sampler._sampleable_count(replay._storage, 8) for replay in (incremental, torchrl_own)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("is_padded", [False, True])
def test_only_padding_reads_every_trajectory(monkeypatch, is_padded):
    """Only a sample of padded slices reads all of them; can_sample never does."""
    options = {"strict_length": False, "pad_output": True} if is_padded else {}
    buffer = make_buffer(LazyTensorStorage(400), slice_len=2, traj_key="episode", **options)
    buffer.extend(transitions([4] * 100))
    requests, original = [], TrajectoryIndex.at
    monkeypatch.setattr(TrajectoryIndex, "at", lambda index, rows: requests.append(len(rows)) or original(index, rows))
    assert buffer.sampler.can_sample(buffer._storage, 8) and requests == []
    buffer.sampler.sample(buffer._storage, 8)
    assert requests == [100 if is_padded else 4]


@pytest.mark.parametrize("loads", [False, True])
def test_slices_of_a_loaded_ring_do_not_join_its_ends(loads, tmp_path):
    """The storage has lost its head, but the writer still knows it."""
    buffer, loaded = (make_buffer(LazyTensorStorage(5), slice_len=2, end_key=("next", "done")) for _ in range(2))
    for first, last in ((0, 4), (4, 7)):
        done = torch.zeros(last - first, 1, dtype=torch.bool)
        buffer.extend(TensorDict({"step": torch.arange(first, last), "next": {"done": done}}, [last - first]))
    if loads:
        buffer.dumps(tmp_path)
        loaded.loads(tmp_path)
    else:
        loaded.load_state_dict(buffer.state_dict())
    slices = {tuple(pair) for _ in range(20) for pair in loaded.sample()["step"].reshape(-1, 2).tolist()}
    assert slices == {(2, 3), (3, 4), (4, 5), (5, 6)}
