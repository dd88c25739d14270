"""What is measured of SliceSampler. Each function runs under a release:

Release("torchrl==0.6.0").run(sampling, 5_000_000, 600_000_000, ["episode", "done"])
"""

import time
from functools import lru_cache
from itertools import cycle

import torch
from tensordict import TensorDict
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchrl.data.replay_buffers import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import SliceSampler

NUM_SLICES, SLICE_LEN = 256, 4  # TD-MPC2: batch_size, and horizon + 1
EPISODE = 500  # rows: DMControl's 1,000 steps with each action repeated
WRITTEN_AT_ONCE = 5_000_000  # rows, while a buffer is filled
ONLINE_ROWS = 1_000  # written before each sample
ROW_BYTES = 8 + 1 + 4 * (3 + 1 + 1)  # of what `rows` makes
ENOUGH_SECONDS = 0.02  # of calls in one timing
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
    return SliceSampler(**{"traj_key" if key == "episode" else "end_key": key}, cache_values=bool(cached), **options)


@lru_cache(maxsize=1)
def buffer(stored: int, capacity: int, device: str = "cpu", ids: torch.dtype = torch.int64) -> ReplayBuffer:
    """A replay buffer that holds so many rows; the one before is dropped."""
    found = ReplayBuffer(storage=LazyTensorStorage(capacity, device=device), batch_size=NUM_SLICES * SLICE_LEN)
    for first in range(0, stored, WRITTEN_AT_ONCE):
        found.extend(rows(first, min(WRITTEN_AT_ONCE, stored - first), device, ids))
    return found


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
    fetching the rows of samples whose indices were drawn before."""
    filled = buffer(stored, capacity, device)
    calls = {name: with_sampler(filled, sampler(name)).sample for name in names if name != "gather"}
    if "gather" in names:
        calls["gather"] = _gather(filled._storage)
    seconds = {name: [] for name in names}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            seconds[name].append(_seconds(call, device))
    return seconds


def _gather(storage):
    drawing = sampler("ours")
    indices = cycle([drawing.sample(storage, NUM_SLICES * SLICE_LEN)[0] for _ in range(DRAWN)])
    return lambda: storage.get(next(indices))


def online(
    stored: int, capacity: int, names: list[str], writes: int = 15, device: str = "cpu"
) -> dict[str, list[float]]:
    """Seconds of the one `buffer.sample()` after each of `writes` writes of ONLINE_ROWS rows, with each of these
    samplers on the same storage; "write" is the write itself."""
    filled = buffer(stored, capacity, device)
    calls = {name: with_sampler(filled, sampler(name)).sample for name in names}
    for call in calls.values():
        call()
    seconds = {name: [] for name in (*names, "write")}
    for _ in range(writes):
        new = rows(stored, ONLINE_ROWS, device)
        seconds["write"].append(_seconds(lambda new=new: filled.extend(new), device, enough=0))
        for name, call in calls.items():
            seconds[name].append(_seconds(call, device, enough=0))
    return seconds


def _seconds(call, device: str, enough: float = ENOUGH_SECONDS) -> float:
    """Seconds a call, of as many calls as fill `enough` seconds, one at least."""
    synchronize = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    synchronize()
    start, count = time.perf_counter(), 0
    while True:
        call()
        synchronize()
        count += 1
        passed = time.perf_counter() - start
        if passed >= enough:
            return passed / count


def moved(stored: int, name: str, ids: torch.dtype = torch.int64, repeats: int = 9) -> dict:
    """Bytes that one sampler.sample() reads and writes, by the tensors that its operators take and give, and seconds
    of it, the best of `repeats`."""
    storage, drawing = buffer(stored, stored, ids=ids)._storage, sampler(name)

    def draw():
        return drawing.sample(storage, NUM_SLICES * SLICE_LEN)

    draw()
    with Moved() as counted:
        draw()
    return {"bytes": counted.bytes, "seconds": min(_seconds(draw, "cpu", enough=0) for _ in range(repeats))}


class Moved(TorchDispatchMode):
    """Bytes of the tensors that operators read and write; views move nothing."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            leaves = tree_leaves((args, kwargs, result))
            self.bytes += sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))
        return result


def index_bytes(stored: int, capacity: int, device: str = "cpu") -> dict:
    """Bytes of our index, and the trajectories in it."""
    drawing = sampler("ours")
    drawing.sample(buffer(stored, capacity, device)._storage, NUM_SLICES * SLICE_LEN)
    return {"bytes": drawing.index_bytes, "trajectories": -(-stored // EPISODE)}
