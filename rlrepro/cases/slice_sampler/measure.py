"""What is measured of SliceSampler. Each function runs under a release:

Release("torchrl==0.6.0").run(sampling, 5_000_000, 600_000_000, ["episode", "done"])
"""

import gc
import time
from itertools import cycle

import numpy as np
import psutil
import torch
from tensordict import TensorDict
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchrl.data.replay_buffers import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import SliceSampler

from rlrepro.lab.timing import synchronizer
from rlrepro.lab.units import format_value

NUM_SLICES, SLICE_LEN = 256, 4  # TD-MPC2: batch_size, and horizon + 1
EPISODE = 500  # rows: DMControl's 1,000 steps with each action repeated
WRITTEN_AT_ONCE = 5_000_000  # rows, while a buffer is filled
ONLINE_ROWS = 1_000  # written before each sample
ROW_BYTES = 8 + 1 + 4 * (3 + 1 + 1)  # of what `rows` makes
BYTES_WHILE_SAMPLING = ROW_BYTES + 8 + 3  # a row: 0.6.0 copies the ids, and makes flags of them three times
SPARE_BYTES = 3 * 2**30  # for four processes with torch
BYTES_WHILE_COMPARING = 3 * 8 + 4  # a stored row, on a card: two copies of the ids, a third on the way, and flags
ENOUGH_SECONDS = 0.02  # of calls in one timing
UNTIMED_WRITES = 3  # before those that are timed
DRAWN = 200  # samples, so that fetching them does not stay in the caches


def rows(first: int, count: int, device: str = "cpu", ids: torch.dtype = torch.int64) -> TensorDict:
    """Transitions as TD-MPC2 stores them, of a pendulum: observation (3), action (1), reward, the episode's number and
    whether it ends here. With ids of few values, numbers come again."""
    number = torch.arange(first, first + count, device=device)
    return TensorDict(
        {
            "obs": torch.zeros(count, 3, device=device),
            "action": torch.zeros(count, 1, device=device),
            "reward": torch.zeros(count, device=device),
            "episode": (number // EPISODE % 2 if ids == torch.bool else number // EPISODE).to(ids),
            "done": (number % EPISODE == EPISODE - 1).unsqueeze(-1),
        },
        [count],
        device=device,
    )


def sampler(name: str):
    """A sampler with TD-MPC2's settings: "episode" or "done", what tells trajectories apart; " cached" behind it sets
    `cache_values`. "ours" is IncrementalSliceSampler."""
    options = {"num_slices": NUM_SLICES, "truncated_key": None, "strict_length": True}
    if name == "ours":
        from rlrepro.fixes import IncrementalSliceSampler

        return IncrementalSliceSampler(traj_key="episode", **options)
    key, _, cached = name.partition(" ")
    # 0.6.0 takes an entry that is called "episode", whatever end_key says, unless another name is given
    keys = {"traj_key": "episode"} if key == "episode" else {"end_key": key, "traj_key": "no such entry"}
    return SliceSampler(cache_values=bool(cached), **keys, **options)


def heeds_end_key() -> bool:
    """Whether `end_key` alone makes SliceSampler read flags, in a buffer that has an entry "episode" as well."""
    asked = SliceSampler(num_slices=NUM_SLICES, end_key="done", truncated_key=None)
    with_sampler(buffer(EPISODE, EPISODE + 1), asked).sample()
    return not asked._fetch_traj


_held = {}  # the buffer that was filled last


def buffer(stored: int, capacity: int, device: str = "cpu", ids: torch.dtype = torch.int64) -> ReplayBuffer:
    """A replay buffer that holds so many rows; the one before is dropped, since they are large."""
    key = stored, capacity, device, ids
    if key not in _held:
        drop()
        filled = ReplayBuffer(storage=LazyTensorStorage(capacity, device=device), batch_size=NUM_SLICES * SLICE_LEN)
        for first in range(0, stored, WRITTEN_AT_ONCE):
            filled.extend(rows(first, min(WRITTEN_AT_ONCE, stored - first), device, ids))
        _held[key] = filled
    return _held[key]


def drop() -> None:
    """Free the buffer that is held: it and its storage name each other."""
    _held.clear()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # another process may want it


def check_room(stored: int) -> None:
    """Raise MemoryError where a buffer of so many rows, and what 0.6.0 takes to sample from it, is not free here."""
    free = psutil.virtual_memory().available - SPARE_BYTES
    if stored * BYTES_WHILE_SAMPLING > free:
        needed, there = (format_value(size, "B") for size in (stored * BYTES_WHILE_SAMPLING, max(0, free)))
        raise MemoryError(
            f"{stored:,} rows take {needed} while they are sampled, and {there} are free here. The largest buffer that "
            f"fits has {max(0, free // BYTES_WHILE_SAMPLING):,} rows: choose profile smoke, or smaller `stored` and "
            "`online_stored` in the settings"
        )


def missing_on_card(stored: int, capacity: int, device: str) -> int:
    """Bytes that a buffer of so many rows, and sampling from it, need beyond what is free on the card; 0 where they
    fit. All of the capacity is taken at once there."""
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return max(0, capacity * ROW_BYTES + stored * BYTES_WHILE_COMPARING - free)


def prepare() -> None:
    """Import what the measurements need, so that several releases can do so side by side."""
    with_sampler(buffer(EPISODE, EPISODE), sampler("episode")).sample()


def with_sampler(filled: ReplayBuffer, its_sampler) -> ReplayBuffer:
    """A buffer on the same storage that samples so."""
    return ReplayBuffer(storage=filled._storage, sampler=its_sampler, batch_size=NUM_SLICES * SLICE_LEN)


def sampling(
    stored: int, capacity: int, names: list[str], repeats: int = 7, device: str = "cpu"
) -> dict[str, list[float]]:
    """Seconds of one `buffer.sample()` with each of these samplers, `repeats` times in turn. "gather" is the floor:
    fetching the rows of samples whose indices were drawn before.

    Name samplers together that are about as fast: after a scan that copies gigabytes, fetching rows stays slow for
    hundreds of milliseconds.
    """
    filled = buffer(stored, capacity, device)
    calls = {name: with_sampler(filled, sampler(name)).sample for name in names if name != "gather"}
    if "gather" in names:
        calls["gather"] = _gather(filled._storage)
    seconds = {name: [] for name in names}
    for _ in range(repeats):
        for name, call in calls.items():
            call()  # what ran before has filled the caches with something else
            seconds[name].append(_seconds(call, device))
    return seconds


def _gather(storage):
    drawing = sampler("ours")
    indices = cycle([drawing.sample(storage, NUM_SLICES * SLICE_LEN)[0] for _ in range(DRAWN)])
    return lambda: storage.get(next(indices))


def online(
    stored: int, capacity: int, names: list[str], writes: int = 15, device: str = "cpu"
) -> dict[str, list[float]]:
    """Seconds in which a sampler finds the rows of a sample (fetching them is left out), once after each of `writes`
    writes of ONLINE_ROWS rows, with each of these samplers on the same storage."""
    filled = buffer(stored, capacity, device)
    samplers = {name: with_sampler(filled, sampler(name)).sampler for name in names}
    storage, size = filled._storage, NUM_SLICES * SLICE_LEN
    for each in samplers.values():
        each.sample(storage, size)
    seconds = {name: [] for name in names}
    for turn in range(-UNTIMED_WRITES, writes):
        index = filled.extend(rows(stored, ONLINE_ROWS, device))
        for name, each in samplers.items():
            each.extend(index)  # as its buffer tells it when it writes
            taken = _seconds(lambda each=each: each.sample(storage, size), device, enough=0)
            if turn >= 0:
                seconds[name].append(taken)
    return seconds


def _seconds(call, device: str, enough: float = ENOUGH_SECONDS) -> float:
    """Seconds a call, of as many calls as fill `enough` seconds, one at least."""
    synchronize = synchronizer(device)
    synchronize()
    start, count = time.perf_counter(), 0
    while True:
        call()
        synchronize()
        count += 1
        passed = time.perf_counter() - start
        if passed >= enough:
            return passed / count


def moved(stored: int, name: str, ids: str = "int64", repeats: int = 25) -> dict:
    """Bytes that one sampler.sample() reads and writes, by the tensors that its operators take and give, and seconds
    of it, the best of `repeats`."""
    storage, drawing = buffer(stored, stored + 1, ids=getattr(torch, ids))._storage, sampler(name)

    def draw():
        return drawing.sample(storage, NUM_SLICES * SLICE_LEN)

    draw()
    with Moved() as counted:
        draw()
    return {"bytes": counted.bytes, "seconds": min(_seconds(draw, "cpu", enough=0) for _ in range(repeats))}


class Moved(TorchDispatchMode):
    """Bytes that operators read and write: the tensors they take and give. Views move nothing, and of a tensor that is
    indexed only what is fetched or replaced counts."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.index.Tensor:
            self._count(args[1], result, result)
        elif func is torch.ops.aten.index_put_.default:
            self._count(args[1], args[2], args[2])
        elif not func.is_view:
            self._count(args, kwargs, result)
        return result

    def _count(self, *values):
        leaves = tree_leaves(values)
        self.bytes += sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))


def both_loops(stored: int, repeats: int, device: str = "cpu") -> dict[str, float]:
    """Median seconds of a sample, by default and cached, from a buffer that stays as it is and after each write."""
    names = ["episode", "episode cached"]
    capacity = stored + 2 * repeats * ONLINE_ROWS
    still = sampling(stored, capacity, names, repeats, device)
    written = online(stored, capacity, names, repeats, device)
    return {
        f"{loop}, {name}": float(np.median(found[name]))
        for loop, found in (("still", still), ("online", written))
        for name in names
    }


def index_bytes(stored: int, capacity: int, device: str = "cpu") -> dict:
    """Bytes of our index, and the trajectories in it."""
    drawing = sampler("ours")
    drawing.sample(buffer(stored, capacity, device)._storage, NUM_SLICES * SLICE_LEN)
    return {"bytes": drawing.index_bytes, "trajectories": -(-stored // EPISODE)}


def same_draws() -> bool:
    """Whether both samplers draw the same rows of a buffer with a single episode, from the same seed."""
    drawn = []
    for name in ("episode", "ours"):
        sampling_so = with_sampler(buffer(EPISODE, EPISODE + 1), sampler(name))
        sampling_so.set_rng(torch.Generator().manual_seed(0))
        drawn.append(torch.cat([sampling_so.sampler.sample(sampling_so._storage, 1024)[0][0] for _ in range(10)]))
    return torch.equal(*drawn)
