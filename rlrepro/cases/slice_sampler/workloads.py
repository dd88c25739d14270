"""Workloads that time SliceSampler and count what it does. Each function runs under a release:

Release("torchrl==0.6.0").run(sampling, 5_000_000, 600_000_000, ["episode", "done"])
"""

import resource
import sys
import time
from itertools import cycle

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rlrepro.cases.slice_sampler.buffers import (
    BATCH_SIZE,
    EPISODE_LEN,
    NUM_SLICES,
    SLICE_LEN,
    buffer,
    sampler,
    transitions,
    with_sampler,
)
from rlrepro.lab.timing import synchronizer

WRITE_SIZE = 1_000  # transitions, before each sample of the online loop
UNTIMED_WRITES = 3  # before those that are timed
MIN_SECONDS = 0.01  # of calls in one timing
PREDRAWN = 200  # samples, so that fetching them does not stay in the caches


def prepare() -> None:
    """Import what the measurements need, so that several releases can do so side by side."""
    sys.modules.setdefault("ray", None)  # not needed here; torchrl imports it if it can, which takes seconds
    with_sampler(buffer(EPISODE_LEN, EPISODE_LEN), sampler("episode")).sample()


def sampling(
    stored: int, capacity: int, names: list[str], repeats: int = 7, device: str = "cpu"
) -> dict[str, list[float]]:
    """Seconds of one `buffer.sample()` with each of these samplers, `repeats` times in turn. "gather" is the floor:
    fetching the transitions of samples whose indices were drawn before.

    Only name samplers of about the same speed in one call: after a scan that copies gigabytes, fetching stays slow for
    hundreds of milliseconds.
    """
    replay_buffer = buffer(stored, capacity, device)
    calls = {name: with_sampler(replay_buffer, sampler(name)).sample for name in names if name != "gather"}
    if "gather" in names:
        calls["gather"] = _gather(replay_buffer._storage)
    seconds = {name: [] for name in names}
    for _ in range(repeats):
        for name, call in calls.items():
            call()  # what ran before has filled the caches with other data
            seconds[name].append(_seconds(call, device))
    return seconds


def online(
    stored: int, capacity: int, names: list[str], writes: int = 15, device: str = "cpu"
) -> dict[str, list[float]]:
    """Seconds in which a sampler finds its slices (fetching them is left out), once after each of `writes` writes of
    WRITE_SIZE transitions, with each of these samplers on the same storage."""
    replay_buffer = buffer(stored, capacity, device)
    samplers = {name: with_sampler(replay_buffer, sampler(name)).sampler for name in names}
    storage = replay_buffer._storage
    for slicer in samplers.values():
        slicer.sample(storage, BATCH_SIZE)
    seconds = {name: [] for name in names}
    for turn in range(-UNTIMED_WRITES, writes):
        index = replay_buffer.extend(transitions(stored, WRITE_SIZE, device))
        for name, slicer in samplers.items():
            slicer.extend(index)  # as its buffer does after a write
            elapsed = _seconds(lambda slicer=slicer: slicer.sample(storage, BATCH_SIZE), device, min_seconds=0)
            if turn >= 0:
                seconds[name].append(elapsed)
    return seconds


def both_loops(stored: int, capacity: int, repeats: int) -> dict[tuple[str, str], list[float]]:
    """Seconds of a sample, by default and cached, from a buffer that does not change and after each write."""
    names = ["episode", "episode cached"]
    loops = {
        "still": sampling(stored, capacity, names, repeats),
        "online": online(stored, capacity, names, repeats),
    }
    return {(loop, name): loops[loop][name] for loop in loops for name in names}


def heeds_end_key() -> bool:
    """Whether `end_key` alone makes SliceSampler read flags, in a buffer that has an entry "episode" as well."""
    from torchrl.data.replay_buffers.samplers import SliceSampler

    slicer = SliceSampler(num_slices=NUM_SLICES, end_key="done", truncated_key=None)
    with_sampler(buffer(EPISODE_LEN, EPISODE_LEN + 1), slicer).sample()
    return not slicer._fetch_traj


def moved(stored: int, capacity: int, name: str, ids: str = "int64", repeats: int = 5) -> dict:
    """Bytes that one sampler.sample() reads and writes, by the tensors that its operators take and return, and its
    seconds, `repeats` times."""
    storage, slicer = buffer(stored, capacity, ids=getattr(torch, ids))._storage, sampler(name)

    def draw():
        return slicer.sample(storage, BATCH_SIZE)

    draw()
    with Moved() as counter:
        draw()
    return {"bytes": counter.bytes, "seconds": [_seconds(draw, "cpu", min_seconds=0) for _ in range(repeats)]}


def finding_flags(stored: int, capacity: int, repeats: int = 10) -> list[float]:
    """Seconds of `nonzero` alone, which finds the flags that are set, `repeats` times."""
    flags = buffer(stored, capacity)._storage[:]["done"].flatten()
    flags.nonzero()
    return [_seconds(flags.nonzero, "cpu", min_seconds=0) for _ in range(repeats)]


def page_faults(stored: int, capacity: int, repeats: int = 3) -> float:
    """Minor page faults of one sample by episode id, the mean of `repeats` samples."""
    draw = with_sampler(buffer(stored, capacity), sampler("episode")).sample
    draw()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(repeats):
        draw()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / repeats


class Moved(TorchDispatchMode):
    """Counts the bytes that operators read and write: those of the tensors they take and return. Views move nothing;
    when a tensor is indexed, only what is fetched or replaced counts."""

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


def index_bytes(stored: int, capacity: int, device: str = "cpu") -> dict:
    """Bytes of IncrementalSliceSampler's index, and the number of trajectories in it."""
    slicer, storage = sampler("ours"), buffer(stored, capacity, device)._storage
    slicer.sample(storage, BATCH_SIZE)
    return {"bytes": slicer.index_bytes, "trajectories": len(slicer._index(storage, SLICE_LEN))}


def same_draws() -> bool:
    """Whether both samplers draw the same slices of a buffer with a single episode, from the same seed."""
    draws = []
    for name in ("episode", "ours"):
        replay_buffer = with_sampler(buffer(EPISODE_LEN, EPISODE_LEN + 1), sampler(name))
        replay_buffer.set_rng(torch.Generator().manual_seed(0))
        draws.append(
            torch.cat([replay_buffer.sampler.sample(replay_buffer._storage, BATCH_SIZE)[0][0] for _ in range(10)])
        )
    return torch.equal(*draws)


def _gather(storage):
    slicer = sampler("ours")
    indices = cycle([slicer.sample(storage, BATCH_SIZE)[0] for _ in range(PREDRAWN)])
    return lambda: storage.get(next(indices))


def _seconds(call, device: str, min_seconds: float = MIN_SECONDS) -> float:
    """Seconds per call, on average over as many calls as fill `min_seconds`, but at least one."""
    synchronize = synchronizer(device)
    synchronize()
    start, count = time.perf_counter(), 0
    while True:
        call()
        synchronize()
        count += 1
        elapsed = time.perf_counter() - start
        if elapsed >= min_seconds:
            return elapsed / count
