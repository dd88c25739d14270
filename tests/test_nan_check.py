"""incremental_nan_check finds what tianshou's own hasnull finds, whatever is written to whichever buffer."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tianshou.data import (
    Batch,
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)

from rlrepro.fixes import incremental_nan_check
from rlrepro.fixes.incremental_nan_check import trainer, written

ENVS, SIZE = 2, 6  # rows of a part of a buffer
ATARI = {"stack_num": 2, "ignore_obs_next": True}
BUFFERS = {
    "plain": partial(ReplayBuffer, SIZE),
    "stacked": partial(ReplayBuffer, SIZE, **ATARI),
    "available": partial(ReplayBuffer, SIZE, sample_avail=True, **ATARI),
    "vector": partial(VectorReplayBuffer, ENVS * SIZE, ENVS),
    "stacked vector": partial(VectorReplayBuffer, ENVS * SIZE, ENVS, **ATARI),
    "prioritized": partial(PrioritizedReplayBuffer, SIZE, alpha=0.6, beta=0.4),
    "prioritized vector": partial(PrioritizedVectorReplayBuffer, ENVS * SIZE, ENVS, alpha=0.6, beta=0.4),
    "cached": lambda: CachedReplayBuffer(ReplayBuffer(SIZE), ENVS, SIZE),
}
KEYS = ("obs.place", "obs.inner.deep", "obs_next.place", "act", "rew", "info.cost", "info.name", "policy.logit")
WRITES = st.one_of(
    st.tuples(st.just("add"), st.lists(st.sampled_from(KEYS), max_size=1), st.booleans()),
    st.tuples(st.just("add"), st.just([]), st.booleans()),  # most transitions are clean
    st.tuples(st.just("set"), st.sampled_from(["rew", "return"]), st.booleans()),
    st.sampled_from([("check",), ("check",), ("reset",), ("pickle",), ("new key",), ("replace",), ("priority",)]),
)


def transition(bad, done, envs, new_key):
    """A transition, or a stack of them, whose entry `bad` is null in the last environment."""
    count = envs or 1
    tree = {
        "obs": {"place": np.zeros((count, 2)), "inner": {"deep": np.zeros(count)}},
        "obs_next": {"place": np.zeros((count, 2)), "inner": {"deep": np.zeros(count)}},
        "act": np.zeros((count, 1), np.float32),
        "rew": np.zeros(count),
        "terminated": np.full(count, done),
        "truncated": np.zeros(count, bool),
        "info": {"cost": np.zeros(count), "name": np.array(["a"] * count, object)},
        "policy": {"logit": torch.zeros(count, 3)},
    }
    if new_key:
        tree["info"]["later"] = np.array([{}] * count, object)
    if bad:
        *path, last = bad.split(".")
        values = tree
        for key in path:
            values = values[key]
        values[last][-1] = None if last == "name" else np.nan
    return Batch(tree) if envs else Batch(tree)[0]


def write(buffer, operation, *details):
    """Apply the operation to the buffer, and return the buffer to continue with."""
    envs = ENVS if hasattr(buffer, "buffers") else None
    stored = buffer.sample_indices(0) if len(buffer) else []  # tianshou refuses some empty buffers
    match operation, *details:
        case "add", bad, done:
            buffer.add(transition(*(bad or [None]), done, envs, new_key=False))
        case ["new key"]:
            buffer.add(transition(None, False, envs, new_key=True))
        case ["reset"]:
            buffer.reset()
        case ["pickle"]:
            buffer = pickle.loads(pickle.dumps(buffer))
        case "set", key, bad if len(stored) and (envs is None or key == "rew"):  # a manager gets no new keys then
            value = np.full(1, np.nan if bad else 0.0)
            buffer.set_array_at_key(value, key, stored[-1:], default_value=0.0)
        case ["replace"] if (
            len(stored) and envs is None and not hasattr(buffer, "return")
        ):  # set_batch wants its own keys
            buffer.set_batch(Batch(buffer._meta, copy=True))
        case ["priority"] if len(stored) and isinstance(buffer, PrioritizedReplayBuffer):
            buffer.update_weight(stored[:1], np.array([np.nan]))
    return buffer


@pytest.fixture
def fixed():
    undo, token = incremental_nan_check(), trainer._collecting.set(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    trainer._collecting.reset(token)
    undo()


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUFFERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=st.lists(WRITES, max_size=25))
def test_it_finds_the_same_as_the_original(fixed, kind, writes):
    buffer = BUFFERS[kind]()
    for operation in [("add", [], False), ("check",), *writes, ("check",)]:
        buffer = write(buffer, *operation)
        if operation == ("check",) and len(buffer):
            has_null = buffer.hasnull()
            assert has_null == ReplayBuffer.hasnull.__wrapped__(buffer), f"after {writes}"


def test_several_buffers_are_distinguished(fixed):
    clean, dirty = ReplayBuffer(SIZE), ReplayBuffer(SIZE)
    for buffer in (clean, dirty):
        buffer.add(transition(None, False, None, new_key=False))
        assert not buffer.hasnull()
    dirty.add(transition("rew", False, None, new_key=False))
    assert not clean.hasnull() and dirty.hasnull()


def test_nan_stays_found_until_it_is_overwritten(fixed):
    buffer = ReplayBuffer(2)
    results = []
    for bad in (None, "rew", None, None):
        buffer.add(transition(bad, False, None, new_key=False))
        results.append(buffer.hasnull())
    assert results == [False, True, True, False]


def test_a_buffer_loaded_from_a_file(fixed, tmp_path):
    buffer = ReplayBuffer(SIZE)
    for bad in (None, "info.cost"):
        buffer.add(transition(bad, False, None, new_key=False))
    buffer.policy.pop("logit")
    buffer.save_hdf5(str(tmp_path / "buffer"))
    assert ReplayBuffer.load_hdf5(str(tmp_path / "buffer")).hasnull()


def test_her_buffers_are_read_whole_because_reading_them_computes_rewards():
    written._is_known.cache_clear()
    buffer, reads = HERReplayBuffer(SIZE, compute_reward_fn=lambda reached, wanted: reached, horizon=2), []
    with pytest.warns(UserWarning, match="reads all of a HERReplayBuffer"):
        for _ in range(3):
            written.WrittenRows().hasnull(buffer, reads.append)
    assert reads == [buffer] * 3


def test_it_forgets_a_buffer_that_is_no_longer_checked(fixed):
    buffer = ReplayBuffer(SIZE)
    for _ in range(3 * SIZE):
        buffer.add(transition(None, False, None, new_key=False))
        if len(buffer) == 1:
            buffer.hasnull()
    buffer.add(transition("rew", False, None, new_key=False))
    assert buffer.hasnull()
