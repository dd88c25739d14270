"""What is measured of the two batch sizes. Each function runs under a release:

Release("tianshou==1.0.0").run(update, rows=256, max_batchsize=64, batch_size=64, gib=8)
"""

import time
from contextlib import nullcontext
from functools import cache

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch.utils._python_dispatch import TorchDispatchMode

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
from rlrepro.lab import VirtualCard
from rlrepro.lab.virtual_card import as_out_of_memory

ENVS = 8  # stepped at once


class RandomFrames(gym.Env):
    """An environment of random frames, with episodes of a fixed length."""

    observation_space = spaces.Box(0, 255, FRAMES, np.uint8)
    action_space = spaces.Discrete(ACTIONS)

    def __init__(self):
        self.random, self.steps = np.random.default_rng(0), 0

    def _frames(self):
        return self.random.integers(0, 256, FRAMES, dtype=np.uint8)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self._frames(), {}

    def step(self, action):
        self.steps += 1
        return self._frames(), float(action), self.steps >= EPISODE, False, {}


def update(
    rows: int,
    max_batchsize: int,
    batch_size: int,
    gib: float | None,
    network: str = "residual",
    device: str = "cpu",
    trace: bool = False,
) -> dict:
    """Collect a rollout with the release's own Collector, and do its own update, on a card of `gib` GiB (None: on one
    that is large enough).

    A small update beforehand leaves gradients and the optimizer's state on the card, as in every update but the first.

    "stages": the bytes live at the worst moment of each stage, weights included, in the order in which they ran;
    "failed", "error": the stage that did not fit and what was raised, or None; "forwards": (stage, network, rows,
    with gradients or not) of each call of the actor or the critic; with `trace`, "trace": (seconds, live bytes) after
    each operator, and "spans": (stage, start, end) in seconds.
    """
    actor, critic = visual_networks(network, device=device)
    algorithm = ppo(actor, critic, max_batchsize=max_batchsize)
    buffer, few = _rollout(network, rows, device), _rollout(network, ENVS, device)
    error = None
    with VirtualCard(gib, device=device) as card:
        _update(algorithm, few, ENVS)
        stages = _Stages(card, algorithm)
        hooks = [stages.watch(name, net) for name, net in {"actor": actor, "critic": critic}.items()]
        with _Trace(card, stages.clock) if trace else nullcontext() as traced:
            try:
                with as_out_of_memory():
                    stages.begin("collect")
                    _collect(algorithm, ENVS)
                    stages.begin("returns")
                    _update(algorithm, buffer, batch_size)
            except torch.OutOfMemoryError as raised:
                error = str(raised)
            failed = stages.current if error else None
            stages.end()
        for hook in hooks:
            hook.remove()
    found = {"stages": stages.peaks, "failed": failed, "error": error, "forwards": stages.forwards}
    return found | ({"trace": traced.points, "spans": stages.spans} if trace else {})


def accounted(planned, device: str) -> dict[str, int]:
    """The bytes of each stage of a plan that a VirtualCard's account has on that device: on a CPU without what
    operators take for themselves, on a GPU with it."""
    return planned.needed if device.startswith("cuda") else planned.stages


def plan_over_run(planned, stages: dict[str, int], device: str) -> dict[str, float]:
    """What a plan says of each of its stages, over the most that was live in a run (`update`'s "stages")."""
    run = {
        "collect": stages["collect"],
        "preprocess": max(stages["returns"], stages["logp_old"]),
        "learn": stages["learn"],
    }
    return {stage: size / run[stage] for stage, size in accounted(planned, device).items()}


class _Stages:
    """The stages of one update: when each began and ended, its peak, and the forward passes in it."""

    def __init__(self, card, algorithm):
        self.card, self.current = card, None
        self.peaks, self.spans, self.forwards = {}, [], []
        self._began = time.perf_counter()
        self._wrap(algorithm, "_add_returns_and_advantages" if is_version_2() else "_compute_returns", after="logp_old")
        self._wrap(algorithm, "_update_with_batch" if is_version_2() else "learn", before="learn")

    def clock(self) -> float:
        return time.perf_counter() - self._began

    def _wrap(self, algorithm, name, before=None, after=None):
        method = getattr(algorithm, name)

        def marking(*args, **kwargs):
            self.begin(before)
            result = method(*args, **kwargs)
            self.begin(after)
            return result

        setattr(algorithm, name, marking)

    def begin(self, name: str | None) -> None:
        """End the stage that runs and begin this one; None goes on with it."""
        if name is not None:
            self.end()
            self.current, self._start = name, self.clock()
            self.card.restart_peak()

    def end(self) -> None:
        if self.current is not None:
            self.peaks[self.current] = self.card.peak_bytes
            self.spans.append((self.current, self._start, self.clock()))

    def watch(self, name: str, net: torch.nn.Module):
        """Note each forward pass of this network."""

        def note(_, args):
            self.forwards.append((self.current, name, len(args[0]), torch.is_grad_enabled()))

        return net.register_forward_pre_hook(note)


class _Trace(TorchDispatchMode):
    """What is live after each operator."""

    def __init__(self, card, clock):
        super().__init__()
        self.card, self.clock, self.points = card, clock, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.points.append((self.clock(), self.card.live_bytes))
        return result


@cache
def _rollout(network: str, rows: int, device: str):
    """A buffer of so many rows, collected once."""
    return _collect(ppo(*visual_networks(network, device=device)), rows)


def _collect(algorithm, rows: int, envs: int = ENVS, no_grad: bool = False):
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv

    buffer = VectorReplayBuffer(rows, envs)
    collector = Collector(policy_of(algorithm), DummyVectorEnv([RandomFrames] * envs), buffer)
    if no_grad:
        collector.collect = torch.no_grad()(collector.collect)
    collector.reset()
    collector.collect(n_step=rows)
    return buffer


def _update(algorithm, buffer, batch_size):
    """What the release's trainer calls once a rollout is collected."""
    if is_version_2():
        from tianshou.utils.torch_utils import policy_within_training_step

        with policy_within_training_step(algorithm.policy):
            algorithm.update(buffer, batch_size, 1)
    else:
        algorithm.update(0, buffer, batch_size=batch_size, repeat=1)


def collecting(envs: int, network: str = "residual", device: str = "cpu", no_grad: bool = False) -> dict:
    """One step of the release's Collector in `envs` environments: the most live bytes, weights included, and whether
    the actor ran with gradients. `no_grad` puts the collector's method under torch.no_grad."""
    algorithm = ppo(*visual_networks(network, device=device))
    with_gradients = []
    policy_of(algorithm).register_forward_pre_hook(lambda *_: with_gradients.append(torch.is_grad_enabled()))
    with VirtualCard(None, device=device) as card:
        _collect(algorithm, envs, envs, no_grad)
    return {"peak_bytes": card.peak_bytes, "with_gradients": any(with_gradients)}


def edge_case(rows: int = 100, max_batchsize: int | None = 32, batch_size: int | None = 32) -> dict:
    """An update of `rows` rows of vectors with these sizes: the rows that the critic sees at a time before the gradient
    steps ("before") and in them ("in"), and the error that came, or None."""
    algorithm = vector_ppo("categorical", 1, max_batchsize)
    batch, buffer, indices = vector_rollout(max(rows, 1))
    found = {"before": [], "in": [], "error": None}
    stage = "before"

    def note(_, args):
        found[stage].append(len(args[0]))

    algorithm.critic.register_forward_pre_hook(note)
    learn = algorithm._update_with_batch if is_version_2() else algorithm.learn
    try:
        batch = preprocess(algorithm, batch[:rows], buffer, indices[:rows])
        stage = "in"
        learn(batch, batch_size, 1)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"
    found["before"] = found["before"][::2]  # observations and next ones, in turn
    return found
