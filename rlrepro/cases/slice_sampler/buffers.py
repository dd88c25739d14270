"""Replay buffers as TD-MPC2 fills them, and the samplers that draw from them.

torchrl is imported where it is used: the notebook's own process names these functions and never calls them.
"""

import gc

import psutil
import torch

from rlrepro.lab.garbage_collector import freeze_imports
from rlrepro.lab.units import format_value

NUM_SLICES, SLICE_LEN = 256, 4  # TD-MPC2: batch_size, and horizon + 1
BATCH_SIZE = NUM_SLICES * SLICE_LEN
EPISODE_LEN = 500  # DMControl's 1,000 steps with each action repeated
WRITTEN_AT_ONCE = 1_000_000  # while a buffer is filled; larger temporary tensors leave the caches
TRANSITION_BYTES = 8 + 1 + 4 * (3 + 1 + 1)  # of one of `transitions`
BYTES_WHILE_SAMPLING = TRANSITION_BYTES + 8 + 3  # 0.6.0 copies the ids, and computes flags from them three times
SPARE_BYTES = 3 * 2**30  # for four processes with torch
BYTES_WHILE_COMPARING = 3 * 8 + 4  # per transition, on a GPU: two copies of the ids, a temporary third, and flags


def transitions(first: int, count: int, device: str = "cpu", ids: torch.dtype = torch.int64):
    """A TensorDict of pendulum transitions as TD-MPC2 stores them: observation (3), action (1), reward, the episode's
    number, and whether the episode ends here. Boolean ids alternate."""
    from tensordict import TensorDict

    steps = torch.arange(first, first + count, device=device)
    episodes = steps // EPISODE_LEN
    zero = torch.zeros(1, device=device)
    return TensorDict(
        {
            "obs": zero.expand(count, 3),
            "action": zero.expand(count, 1),
            "reward": zero.expand(count),
            "episode": (episodes % 2 if ids == torch.bool else episodes).to(ids),
            "done": (steps % EPISODE_LEN == EPISODE_LEN - 1).unsqueeze(-1),
        },
        [count],
        device=device,
    )


_cached = {}  # the buffer that was filled last: (capacity, device, dtype of ids) to (transitions requested, buffer)


def buffer(stored: int, capacity: int, device: str = "cpu", ids: torch.dtype = torch.int64):
    """A torchrl ReplayBuffer that holds `stored` transitions, and what was written to it since it was filled.

    The last buffer is cached, and filled further if a call requests more. Any other request drops it first, since
    buffers are large.
    """
    from torchrl.data.replay_buffers import LazyTensorStorage, ReplayBuffer

    freeze_imports()
    key = capacity, device, ids
    filled_to, replay_buffer = _cached.get(key, (0, None))
    if replay_buffer is None or (stored != filled_to and stored < len(replay_buffer)):
        del replay_buffer
        drop()
        replay_buffer = ReplayBuffer(storage=LazyTensorStorage(capacity, device=device), batch_size=BATCH_SIZE)
    if stored != filled_to:
        for first in range(len(replay_buffer), stored, WRITTEN_AT_ONCE):
            replay_buffer.extend(transitions(first, min(WRITTEN_AT_ONCE, stored - first), device, ids))
    _cached[key] = stored, replay_buffer
    return replay_buffer


def drop() -> None:
    """Free the cached buffer. It and its storage refer to each other, so this collects garbage."""
    if _cached:
        _cached.clear()
        gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # another process may need it


def sampler(name):
    """A sampler with TD-MPC2's settings. "episode" and "done" name the entry that separates trajectories, and " cached"
    after it sets `cache_values`. "ours" is IncrementalSliceSampler. "without replacement" and "ours without
    replacement" separate by episode id and draw each episode once. A function in place of a name constructs the
    sampler itself."""
    from torchrl.data.replay_buffers.samplers import SliceSampler, SliceSamplerWithoutReplacement

    options = {"num_slices": NUM_SLICES, "truncated_key": None, "strict_length": True}
    if callable(name):
        return name(traj_key="episode", **options)
    if name == "ours":
        from rlrepro.fixes import IncrementalSliceSampler

        return IncrementalSliceSampler(traj_key="episode", **options)
    if name == "ours without replacement":
        from rlrepro.fixes import IncrementalSliceSamplerWithoutReplacement

        return IncrementalSliceSamplerWithoutReplacement(traj_key="episode", **options)
    if name == "without replacement":
        return SliceSamplerWithoutReplacement(traj_key="episode", **options)
    key, _, cached = name.partition(" ")
    # 0.6.0 reads an entry called "episode", whatever end_key says, unless another name is given
    keys = {"traj_key": "episode"} if key == "episode" else {"end_key": key, "traj_key": "no such entry"}
    return SliceSampler(cache_values=bool(cached), **keys, **options)


def with_sampler(replay_buffer, new_sampler):
    """A ReplayBuffer on the same storage with another sampler."""
    from torchrl.data.replay_buffers import ReplayBuffer

    return ReplayBuffer(storage=replay_buffer._storage, sampler=new_sampler, batch_size=BATCH_SIZE)


def check_memory(stored: int) -> None:
    """Raise MemoryError if a buffer of that many transitions, and what 0.6.0 allocates to sample from it, do not fit in
    the free memory of this machine."""
    free = psutil.virtual_memory().available - SPARE_BYTES
    if stored * BYTES_WHILE_SAMPLING > free:
        required, available = (format_value(size, "B") for size in (stored * BYTES_WHILE_SAMPLING, max(0, free)))
        raise MemoryError(
            f"sampling from {stored:,} transitions takes {required}, and {available} are free here. The largest buffer "
            f"that fits has {max(0, free // BYTES_WHILE_SAMPLING):,} transitions: choose the profile smoke, or smaller "
            "`stored` and `online_stored` in the settings"
        )


def missing_on_card(stored: int, capacity: int, device: str) -> int:
    """Bytes that a buffer of that many transitions, and sampling from it, need beyond what is free on the GPU, or 0 if
    they fit. On a GPU, the whole capacity is allocated at once."""
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return max(0, capacity * TRANSITION_BYTES + stored * BYTES_WHILE_COMPARING - free)
