"""Replay buffers as TD-MPC2 fills them, and the samplers that draw from them.

torchrl is imported where it is used: the notebook's own process names these functions and never calls them.
"""

import gc

import psutil
import torch

from rlrepro.lab.units import format_value

NUM_SLICES, SLICE_LEN = 256, 4  # TD-MPC2: batch_size, and horizon + 1
BATCH_SIZE = NUM_SLICES * SLICE_LEN
EPISODE_LEN = 500  # DMControl's 1,000 steps with each action repeated
WRITTEN_AT_ONCE = 1_000_000  # while a buffer is filled; larger temporary tensors leave the caches
TRANSITION_BYTES = 8 + 1 + 4 * (3 + 1 + 1)  # of what `transitions` makes
BYTES_WHILE_SAMPLING = TRANSITION_BYTES + 8 + 3  # 0.6.0 copies the ids, and makes flags of them three times
SPARE_BYTES = 3 * 2**30  # for four processes with torch
BYTES_WHILE_COMPARING = 3 * 8 + 4  # per transition, on a GPU: two copies of the ids, a third on the way, and flags


def transitions(first: int, count: int, device: str = "cpu", ids: torch.dtype = torch.int64):
    """A TensorDict of transitions as TD-MPC2 stores them, of a pendulum: observation (3), action (1), reward, the
    episode's number, and whether the episode ends here. Boolean ids alternate."""
    from tensordict import TensorDict

    step = torch.arange(first, first + count, device=device)
    episode = step // EPISODE_LEN
    zero = torch.zeros(1, device=device)
    return TensorDict(
        {
            "obs": zero.expand(count, 3),
            "action": zero.expand(count, 1),
            "reward": zero.expand(count),
            "episode": (episode % 2 if ids == torch.bool else episode).to(ids),
            "done": (step % EPISODE_LEN == EPISODE_LEN - 1).unsqueeze(-1),
        },
        [count],
        device=device,
    )


_held = {}  # the buffer that was filled last: (capacity, device, type of ids) to (transitions asked for, buffer)


def buffer(stored: int, capacity: int, device: str = "cpu", ids: torch.dtype = torch.int64):
    """A torchrl ReplayBuffer that holds `stored` transitions, and what was written to it since it was filled.

    The last one is kept, and filled further when more is asked for. Otherwise it is dropped first: they are large.
    """
    from torchrl.data.replay_buffers import LazyTensorStorage, ReplayBuffer

    key = capacity, device, ids
    filled_to, filled = _held.get(key, (0, None))
    if filled is None or (stored != filled_to and stored < len(filled)):
        del filled
        drop()
        filled = ReplayBuffer(storage=LazyTensorStorage(capacity, device=device), batch_size=BATCH_SIZE)
    if stored != filled_to:
        for first in range(len(filled), stored, WRITTEN_AT_ONCE):
            filled.extend(transitions(first, min(WRITTEN_AT_ONCE, stored - first), device, ids))
    _held[key] = stored, filled
    return filled


def drop() -> None:
    """Free the buffer that is held; it and its storage refer to each other."""
    _held.clear()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # another process may need it


def sampler(name):
    """A sampler with TD-MPC2's settings: "episode" or "done", what separates trajectories; " cached" after it sets
    `cache_values`. "ours" is IncrementalSliceSampler. "without replacement" and "ours without replacement" separate by
    episode id and draw each episode once. A function in place of a name makes the sampler itself."""
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


def with_sampler(filled, its_sampler):
    """A ReplayBuffer on the same storage with another sampler."""
    from torchrl.data.replay_buffers import ReplayBuffer

    return ReplayBuffer(storage=filled._storage, sampler=its_sampler, batch_size=BATCH_SIZE)


def check_memory(stored: int) -> None:
    """Raise MemoryError if a buffer of so many transitions, and what 0.6.0 allocates to sample from it, do not fit in
    the memory that is free here."""
    free = psutil.virtual_memory().available - SPARE_BYTES
    if stored * BYTES_WHILE_SAMPLING > free:
        needed, available = (format_value(size, "B") for size in (stored * BYTES_WHILE_SAMPLING, max(0, free)))
        raise MemoryError(
            f"sampling from {stored:,} transitions takes {needed}, and {available} are free here. The largest buffer "
            f"that fits has {max(0, free // BYTES_WHILE_SAMPLING):,} transitions: choose the profile smoke, or smaller "
            "`stored` and `online_stored` in the settings"
        )


def missing_on_card(stored: int, capacity: int, device: str) -> int:
    """Bytes that a buffer of so many transitions, and sampling from it, need beyond what is free on the GPU; 0 if they
    fit. There, the whole capacity is allocated at once."""
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return max(0, capacity * TRANSITION_BYTES + stored * BYTES_WHILE_COMPARING - free)
