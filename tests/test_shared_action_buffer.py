"""SharedActionBuffer returns what was stored, in few bytes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from torchrl.data import LazyMemmapStorage, LazyTensorStorage

from rlrepro.fixes import SharedActionBuffer

ACTIONS, STATE = 27, 3
TABLE = torch.randn(ACTIONS, 2)


def transitions(count, *, first=0, masks=None, table=TABLE):
    """Transitions whose fields identify them, with `masks` different masks."""
    ids = torch.arange(first, first + count)
    data = {
        "observation": ids.float().unsqueeze(1).expand(count, STATE).clone(),
        "action": ids % len(table),
        "next": {
            "observation": ids.float().unsqueeze(1).expand(count, STATE) + 0.5,
            "reward": ids.float(),
            "done": torch.zeros(count, dtype=torch.bool),
            "terminated": torch.zeros(count, dtype=torch.bool),
        },
    }
    if masks:
        data["action_mask"] = make_masks(ids % masks, len(table))
        data["action"] = allowed(data["action"], data["action_mask"])
        data["next"]["action_mask"] = make_masks((ids + 1) % masks, len(table))
    return TensorDict(data, batch_size=[count])


def make_masks(mask_ids, count):
    """One mask per id; id 0 allows every action."""
    masks = [torch.ones(count, dtype=torch.bool)]
    generator = torch.Generator().manual_seed(0)
    for _ in range(int(mask_ids.max())):
        masks.append(torch.rand(count, generator=generator) < 0.5)
        masks[-1][0] = True
    return torch.stack(masks)[mask_ids]


def allowed(actions, masks):
    """The actions that their masks allow, and otherwise action 0."""
    return actions * masks[torch.arange(len(actions)), actions]


def check(batch, masks=None):
    ids = batch["next", "reward"].long()
    actions = ids % ACTIONS
    if masks:
        actions = allowed(actions, make_masks(ids % masks, ACTIONS))
    assert torch.equal(batch["observation"][:, 0].long(), ids)
    assert torch.equal(batch["action"], actions) and batch["action"].dtype == torch.long
    if masks:
        assert torch.equal(batch["action_mask"], make_masks(ids % masks, ACTIONS))
        assert torch.equal(batch["next", "action_mask"], make_masks((ids + 1) % masks, ACTIONS))


@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12), masks=st.sampled_from([None, 1, 5, 300]))
def test_samples_equal_the_stored_transitions(sizes, masks):
    buffer, n_stored = SharedActionBuffer(50, TABLE, batch_size=64), 0
    for size in sizes:
        buffer.extend(transitions(size, first=n_stored, masks=masks))
        n_stored += size
        check(buffer.sample(), masks)
    assert len(buffer) == min(50, n_stored)
    assert buffer.sample()["next", "reward"].min() >= n_stored - 50


def test_adding_one_at_a_time_equals_extending():
    added, extended = (SharedActionBuffer(20, TABLE) for _ in range(2))
    data = transitions(20, masks=5)
    extended.extend(data)
    for transition in data.unbind(0):
        added.add(transition)
    assert (added[:] == extended[:]).all()
    listed = SharedActionBuffer(20, TABLE)
    listed.extend(list(data))
    assert (listed[:] == extended[:]).all() and not len(listed.extend([])) and len(listed) == len(data)
    check(added.sample(100), 5)


def test_a_transition_takes_18_bytes_without_its_states():
    count = 1000
    buffer = SharedActionBuffer(count, torch.randn(27_000, 2))
    buffer.extend(transitions(count, masks=3, table=buffer.actions))
    stored = sum(tensor.untyped_storage().nbytes() for tensor in buffer.storage._storage.values(True, True))
    states = 2 * count * STATE * 4
    assert (stored - states) / count == 4 + 4 + 4 + 4 + 1 + 1  # action, two masks, reward, done, terminated
    assert buffer.masks.nbytes <= 4 * 27_000 / 8 + 4  # two masks, and space for two more
    assert buffer.actions.nbytes == 27_000 * 2 * 4


@pytest.mark.slow
def test_masks_that_are_no_longer_referenced_are_reused():
    buffer, generator = SharedActionBuffer(10, TABLE), torch.Generator().manual_seed(0)
    for _ in range(2000):
        data = transitions(1)
        data["action_mask"] = torch.rand(1, ACTIONS, generator=generator) < 0.5
        data["action_mask"][:, 0] = True
        data["next"]["action_mask"] = data["action_mask"].clone()
        buffer.extend(data)
    assert len(buffer.masks.rows) <= 64  # of 2,000 different masks, at most 20 are referenced


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage])
def test_it_can_be_saved_and_loaded(storage, tmp_path):
    first = SharedActionBuffer(30, TABLE, storage=storage(30), batch_size=100)
    first.extend(transitions(40, masks=5))
    first.dumps(tmp_path / "buffer")
    assert isinstance(first.storage, storage)
    second = SharedActionBuffer(30, TABLE, storage=storage(30), batch_size=100)
    second.loads(tmp_path / "buffer")
    third = SharedActionBuffer(30, TABLE, batch_size=100)
    state = first.state_dict()
    first.extend(transitions(30, first=100, masks=300))  # the state is a copy
    third.load_state_dict(state)
    for loaded in (second, third):
        loaded.extend(transitions(5, first=40, masks=5))
        check(loaded.sample(), 5)
        assert len(loaded) == 30


@pytest.mark.parametrize("masks", [None, 5])
@pytest.mark.parametrize("dimensions", [1, 2])
def test_nothing_is_extended_by_no_transitions(masks, dimensions):
    storage = LazyTensorStorage(30, ndim=dimensions)
    buffer = SharedActionBuffer(30, TABLE, storage=storage, batch_size=100)
    nothing, some = transitions(1, masks=masks)[:0], transitions(6)
    if dimensions == 2:
        nothing, some = nothing.reshape(2, 0), some.reshape(2, 3)
    for _ in range(2):
        index = buffer.extend(nothing)
        assert index.dtype == torch.long and index.shape == buffer.extend(some)[:0].shape
    if dimensions == 1:
        buffer[torch.tensor([], dtype=torch.long)] = nothing
    assert "action_mask" not in buffer.sample() and len(buffer) == 12


@pytest.mark.filterwarnings("ignore:Got conflicting batch_sizes")
def test_it_samples_as_torchrls_buffer_does():
    buffer = SharedActionBuffer(30, TABLE, batch_size=8)
    buffer.extend(transitions(30))
    batch, info = buffer.sample(return_info=True)
    assert len(batch) == 8 and np.array_equal(np.asarray(info["index"]).ravel(), batch["next", "reward"].long())
    assert len(buffer.sample(5)) == 5
    check(next(iter(buffer)))


def test_masks_may_be_omitted_if_every_action_is_available():
    buffer = SharedActionBuffer(10, TABLE, batch_size=100)
    buffer.extend(transitions(10, masks=5))
    buffer.extend(transitions(6, first=100))
    batch = buffer.sample()
    later = batch["next", "reward"] >= 100
    assert later.any() and batch["action_mask"][later].all() and batch["next", "action_mask"][later].all()
    check(batch[~later], 5)


def test_after_the_end_of_an_episode_no_action_has_to_be_available():
    buffer, data = SharedActionBuffer(10, TABLE, batch_size=50), transitions(5, masks=3)
    data["next", "action_mask"][2] = False
    with pytest.raises(ValueError, match="allows none in transitions"):
        buffer.extend(data)
    data["next", "terminated"][2] = True
    buffer.extend(data)
    batch = buffer.sample()
    assert not batch["next", "action_mask"][batch["next", "reward"] == 2].any()


def test_parallel_trajectories_are_stored():
    buffer = SharedActionBuffer(50, TABLE, storage=LazyTensorStorage(50, ndim=2), batch_size=40)
    buffer.extend(transitions(20, masks=5).reshape(2, 10))
    check(buffer.sample(), 5)


@pytest.mark.parametrize("rounds", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_it_can_be_saved_and_sampled_while_other_threads_write(rounds, tmp_path):
    buffer, loaded = (SharedActionBuffer(4, TABLE, batch_size=20) for _ in range(2))
    buffer.extend(transitions(4, masks=300))
    stop, first = threading.Event(), iter(range(4, 10**9))

    def write():
        while not stop.is_set():
            buffer.extend(transitions(1, first=next(first), masks=300))

    def sample():
        while not stop.is_set():
            check(buffer.sample(), 300)

    with ThreadPoolExecutor(3) as threads:
        futures = [threads.submit(task) for task in (write, write, sample)]
        try:
            for _ in range(rounds):
                buffer.dumps(tmp_path / "buffer")
                loaded.loads(tmp_path / "buffer")
                check(loaded.sample(), 300)
                loaded.load_state_dict(buffer.state_dict())
                check(loaded.sample(), 300)
        finally:
            stop.set()
        for future in futures:
            future.result(timeout=20)


@pytest.mark.gpu
def test_batches_arrive_on_the_gpu():
    buffer = SharedActionBuffer(50, TABLE, device="cuda", batch_size=64)
    buffer.extend(transitions(50, masks=5))
    batch = buffer.sample()
    assert {tensor.device.type for tensor in batch.values(True, True)} == {"cuda"}
    assert buffer.storage[:]["observation"].device.type == "cpu"
    check(batch.cpu(), 5)


def test_stored_transitions_are_read_and_replaced_by_index():
    buffer = SharedActionBuffer(20, TABLE)
    buffer.extend(transitions(20, masks=5))
    check(buffer[3:9], masks=5)
    check(buffer[torch.tensor([4, 1])], masks=5)
    assert buffer[7]["action_mask"].shape == (ACTIONS,) and buffer["action_mask"].shape == (20, ACTIONS)
    buffer[2:4] = transitions(2, first=30, masks=5)
    check(buffer[:], masks=5)
    with pytest.raises(ValueError, match="replace whole transitions"):
        buffer["action"] = torch.zeros(20)


def test_the_table_may_be_a_list_or_an_array():
    for table in (TABLE.tolist(), TABLE.double().numpy()):
        assert torch.equal(SharedActionBuffer(20, table).actions, TABLE)
    with pytest.raises(ValueError, match="capacity must be at least 1 transition, found 0"):
        SharedActionBuffer(0, TABLE)
