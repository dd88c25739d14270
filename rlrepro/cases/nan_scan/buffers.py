"""Replay buffers that are filled at once, for whichever tianshou is imported."""

import numpy as np

from rlrepro.cases.common.networks import FRAMES

FEATURES, ACTIONS = 17, 6  # of HalfCheetah
EPISODE = 1000
STACK = 4
PARTS = 10  # environments, each with its part of a buffer of frames


def filled_buffer(kind: str, stored: int, size: int | None = None):
    """A buffer of `stored` random transitions, with room for `size`.

    "vectors" are as in tianshou's MuJoCo examples, in one ReplayBuffer; "frames" as in its Atari examples, in a
    VectorReplayBuffer that stores each frame once and stacks four on reading.
    """
    from tianshou.data import Batch, ReplayBuffer, VectorReplayBuffer

    rng = np.random.default_rng(0)
    if kind == "vectors":
        buffer, parts = ReplayBuffer(size or stored), None
        obs, act = rng.standard_normal((1, FEATURES)), rng.uniform(-1, 1, (1, ACTIONS)).astype(np.float32)
    else:
        options = {"ignore_obs_next": True, "save_only_last_obs": True, "stack_num": STACK}
        buffer, parts = VectorReplayBuffer(size or stored, PARTS, **options), PARTS
        obs, act = np.zeros((parts, *FRAMES), np.uint8), np.zeros(parts, int)
    rows = parts or 1
    first = Batch(
        obs=obs,
        act=act,
        rew=np.zeros(rows),
        terminated=np.zeros(rows, bool),
        truncated=np.zeros(rows, bool),
        obs_next=obs,
        info={},
    )
    buffer.add(first if parts else first[0])  # allocates the arrays
    for part, begin in zip(buffer.buffers, buffer._offset, strict=True) if parts else [(buffer, 0)]:
        _fill(part, stored // rows)
        _fill_arrays(buffer._meta, slice(begin, begin + stored // rows), rng)
    if parts:
        buffer._lengths[:] = stored // rows
        buffer.last_index = buffer._offset + stored // rows - 1
    return buffer


def _fill(buffer, stored: int) -> None:
    """Set what `stored` calls of `add` would have set."""
    buffer._size, buffer._insertion_idx = stored, stored % buffer.maxsize
    buffer.last_index = np.array([stored - 1])
    buffer._ep_start_idx = stored // EPISODE * EPISODE % buffer.maxsize


def _fill_arrays(meta, rows: slice, rng) -> None:
    for key in ("obs", "obs_next"):
        if key in meta.get_keys():
            values = meta[key][rows]
            is_frame = values.dtype == np.uint8
            values[:] = rng.integers(0, 256, values.shape, np.uint8) if is_frame else rng.random(values.shape)
    for key in ("terminated", "done"):
        meta[key][rows][EPISODE - 1 :: EPISODE] = True
