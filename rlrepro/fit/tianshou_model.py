"""plan_tianshou(make, ...): an update of any algorithm of tianshou 2.x by its own code, with a full buffer."""

import inspect
import tracemalloc
from collections.abc import Callable

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from rlrepro.fit.marks import stage
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.own_update import plan_update
from rlrepro.fit.step_sizes import accepted

SCANNED = 256, 512  # transitions per buffer, from which the memory of the search for NaN is extrapolated


def plan_tianshou(
    make: Callable[..., object],
    obs_space: spaces.Space,
    act_space: spaces.Space,
    *,
    buffer: Callable[[int], object] | None = None,
    buffer_size: int = 20_000,
    batch_size: int = 64,
    envs: int = 1,
    device: str = "cuda",
    device_memory_gib: float | None = None,
    **sizes: int,
) -> Plan:
    """Plan an update of the algorithm that `make()` returns: "collect" is a step of its policy, "preprocess" computes
    returns and targets, "learn" makes the gradient steps, and "nan scan" is the search for NaN in the whole buffer, in
    host memory, if this release's trainer does it after each collect.

    Args:
        buffer: makes a buffer of that many transitions, such as `functools.partial(VectorReplayBuffer, buffer_num=8)`;
            by default a ReplayBuffer. It counts as full
        buffer_size: transitions; of an on-policy algorithm, those of one update
        batch_size: samples per gradient step
        envs: environments that are stepped at once
        sizes: arguments of `make`
        device, device_memory_gib: as in `plan_update`

    Raises CannotPlan as `plan_update` does, and if `make()` returns anything else.
    """
    from tianshou.algorithm.algorithm_base import Algorithm, OnPolicyAlgorithm
    from tianshou.data import Batch, ReplayBuffer
    from tianshou.trainer import OnlineTrainer
    from tianshou.utils.torch_utils import policy_within_training_step

    buffer = buffer or ReplayBuffer
    scan_bytes = (
        _scan_bytes(buffer, obs_space, act_space) if "hasnull" in inspect.getsource(OnlineTrainer) else lambda _: 0
    )

    def make_state(**all_sizes):
        algorithm = make(**accepted(make, all_sizes))
        if not isinstance(algorithm, Algorithm):
            raise CannotPlan(f"make must return an Algorithm of tianshou 2.x; found {type(algorithm).__name__}")
        return algorithm, full(buffer(all_sizes["buffer_size"]), obs_space, act_space)

    def step(state, batch_size, buffer_size, envs):
        algorithm, full_buffer = state
        with policy_within_training_step(algorithm.policy):  # otherwise some policies take the mode, not a sample
            with stage("collect"):
                algorithm.policy.eval()
                algorithm.policy(Batch(obs=create_empty_array(obs_space, envs), info=Batch()))
            if scan_bytes(buffer_size):
                with stage("nan scan"):
                    np.empty(scan_bytes(buffer_size), np.uint8)
            on_policy = isinstance(algorithm, OnPolicyAlgorithm)
            for _ in range(1 if on_policy else 2):  # TD3 updates its actor every second time
                with stage("preprocess"):
                    algorithm.train()
                    batch, indices = full_buffer.sample(0 if on_policy else batch_size)
                    batch = algorithm._preprocess_batch(batch, full_buffer, indices)
                with stage("learn"):
                    algorithm._update_with_batch(batch, *([batch_size, 1] if on_policy else []))
                algorithm._postprocess_batch(batch, full_buffer, indices)
                del batch

    if unknown := sizes.keys() - accepted(make, sizes).keys():
        raise CannotPlan(f"make has no size {', '.join(sorted(unknown))}")
    sizes |= {"batch_size": batch_size, "buffer_size": buffer_size, "envs": envs}
    return plan_update(make_state, step, device=device, device_memory_gib=device_memory_gib, **sizes)


def full(buffer, obs_space: spaces.Space, act_space: spaces.Space):
    """Mark the buffer as full, and return it."""
    from tianshou.data import Batch, ReplayBufferManager

    obs, act = (create_empty_array(space, 1) for space in (obs_space, act_space))
    buffers = getattr(buffer, "buffers", [buffer])
    ends = {name: np.zeros(len(buffers), bool) for name in ("terminated", "truncated")}
    rows = [0] * len(buffers)
    batch = Batch(obs=obs, obs_next=obs, act=act)[rows]
    buffer.add(Batch(batch, rew=np.zeros(len(buffers)), info=Batch(), **ends), buffer_ids=np.arange(len(buffers)))
    for part in buffers:
        part._size = part.maxsize
    if isinstance(buffer, ReplayBufferManager):
        buffer._lengths[:] = [part.maxsize for part in buffers]
    return buffer


def _scan_bytes(buffer: Callable, obs_space, act_space) -> Callable[[int], int]:
    """A function of the number of transitions: the bytes that `hasnull` needs on top of the buffer. It copies what is
    stored and makes a flag for each number, which is measured on two small buffers."""
    peaks = []
    for size in SCANNED:
        full_buffer = full(buffer(size), obs_space, act_space)
        full_buffer.hasnull()
        tracemalloc.start()
        full_buffer.hasnull()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    per_transition = (peaks[1] - peaks[0]) / (SCANNED[1] - SCANNED[0])
    return lambda size: max(0, round(peaks[0] + per_transition * (size - SCANNED[0])))
