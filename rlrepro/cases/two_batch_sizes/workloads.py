"""The workloads of the chapter. Each function runs under a release of tianshou:

Release("tianshou==1.0.0").run(update, rollout=256, max_batchsize=64, batch_size=64, gib=8)
"""

from contextlib import nullcontext
from functools import cache

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from rlrepro.cases.common.networks import FRAMES
from rlrepro.cases.common.tianshou_ppo import (
    ACTIONS,
    EPISODE,
    is_version_2,
    policy_of,
    ppo,
    preprocess,
    visual_networks,
)
from rlrepro.cases.common.tianshou_vectors import vector_ppo, vector_rollout
from rlrepro.cases.two_batch_sizes.stages import StageObserver, Trace
from rlrepro.lab import VirtualCard
from rlrepro.lab.virtual_card import as_out_of_memory

ENVS = 8  # stepped at once


class RandomFrames(gym.Env):
    """An environment of random frames, with episodes of a fixed length."""

    observation_space = spaces.Box(0, 255, FRAMES, np.uint8)
    action_space = spaces.Discrete(ACTIONS)

    def __init__(self):
        self.rng, self.steps = np.random.default_rng(0), 0

    def _frames(self):
        return self.rng.integers(0, 256, FRAMES, dtype=np.uint8)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self._frames(), {}

    def step(self, action):
        self.steps += 1
        return self._frames(), float(action), self.steps >= EPISODE, False, {}


def update(
    rollout: int,
    max_batchsize: int,
    batch_size: int,
    gib: float | None,
    network: str = "residual",
    device: str = "cpu",
    trace: bool = False,
) -> dict:
    """Collect `rollout` transitions with the release's own Collector and run its own update on a virtual card of
    `gib` GiB, or with None on one that is large enough.

    A small update beforehand leaves gradients and the optimizer's state there, as in every update but the first.

    Returns "stages": each stage's peak of live bytes, weights included, in the order in which the stages ran; "failed",
    "error": the stage that did not fit and the error's message, or None; "forwards": (stage, network, rows, with
    gradients or not) of each forward pass of the actor or the critic; with `trace`, "trace": (seconds, live bytes)
    after each operator, and "spans": (stage, start, end) in seconds.
    """
    actor, critic = visual_networks(network, device=device)
    algorithm = ppo(actor, critic, max_batchsize=max_batchsize)
    buffer, small_buffer = _filled_buffer(network, rollout, device), _filled_buffer(network, ENVS, device)
    error = None
    with VirtualCard(gib, device=device) as card:
        _update(algorithm, small_buffer, ENVS)
        observer = StageObserver(card, algorithm)
        hooks = [observer.observe(name, net) for name, net in {"actor": actor, "critic": critic}.items()]
        with Trace(card, observer.clock) if trace else nullcontext() as traced:
            try:
                with as_out_of_memory():
                    observer.begin("collect")
                    _collect(algorithm, ENVS)
                    observer.begin("returns")
                    _update(algorithm, buffer, batch_size)
            except torch.OutOfMemoryError as oom:
                error = str(oom)
            failed = observer.current if error else None
            observer.end()
        for hook in hooks:
            hook.remove()
    result = {"stages": observer.peaks, "failed": failed, "error": error, "forwards": observer.forwards}
    return result | ({"trace": traced.points, "spans": observer.spans} if trace else {})


def in_no_grad(collector) -> None:
    """Our fix: collecting keeps no activations for a backward pass."""
    collector.collect = torch.no_grad()(collector.collect)


def collecting(envs: int, network: str = "residual", device: str = "cpu", no_grad: bool = False, fix=None) -> dict:
    """One step of the release's Collector in `envs` environments: "peak_bytes" of live tensors, weights included,
    whether the actor ran "with_gradients", the "actions", and whether gradients are enabled "afterwards". `no_grad`
    wraps the collector's method in torch.no_grad; `fix` is a function that changes the collector in another way."""
    algorithm = ppo(*visual_networks(network, device=device))
    grad_modes = []
    policy_of(algorithm).register_forward_pre_hook(lambda *_: grad_modes.append(torch.is_grad_enabled()))
    with VirtualCard(None, device=device) as card:
        buffer = _collect(algorithm, envs, envs, in_no_grad if no_grad else fix)
    afterwards = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    result = {"peak_bytes": card.peak_bytes, "with_gradients": any(grad_modes)}
    return result | {"actions": buffer.act[: len(buffer)].tolist(), "afterwards": afterwards}


def edge_case(rollout: int = 100, max_batchsize: int | None = 32, batch_size: int | None = 32) -> dict:
    """An update on `rollout` vector observations with these sizes: the critic's batch sizes "before" the gradient steps
    and "in" them, and the "error" that was raised, or None."""
    algorithm = vector_ppo("categorical", 1, max_batchsize)
    batch, buffer, indices = vector_rollout(max(rollout, 1))
    result = {"before": [], "in": [], "error": None}
    stage = "before"

    def record(_, args):
        result[stage].append(len(args[0]))

    algorithm.critic.register_forward_pre_hook(record)
    learn = algorithm._update_with_batch if is_version_2() else algorithm.learn
    try:
        batch = preprocess(algorithm, batch[:rollout], buffer, indices[:rollout])
        stage = "in"
        learn(batch, batch_size, 1)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
    result["before"] = result["before"][::2]  # observations and next observations alternate
    return result


@cache
def _filled_buffer(network: str, rollout: int, device: str):
    """A buffer of `rollout` transitions, collected once per process."""
    return _collect(ppo(*visual_networks(network, device=device)), rollout)


def _collect(algorithm, steps: int, envs: int = ENVS, fix=None):
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv

    buffer = VectorReplayBuffer(steps, envs)
    collector = Collector(policy_of(algorithm), DummyVectorEnv([RandomFrames] * envs), buffer)
    if fix:
        fix(collector)
    collector.reset()
    collector.collect(n_step=steps)
    return buffer


def _update(algorithm, buffer, batch_size):
    """Run an update as the release's trainer does once a rollout is collected."""
    if is_version_2():
        from tianshou.utils.torch_utils import policy_within_training_step

        with policy_within_training_step(algorithm.policy):
            algorithm.update(buffer, batch_size, 1)
    else:
        algorithm.update(0, buffer, batch_size=batch_size, repeat=1)
