"""Runs of the libraries' own updates: the bytes that the storage tracker counts and that torch allocates, or on a GPU
those that torch allocates and reserves."""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from rlrepro.cases.common.tianshou_ppo import ppo, preprocess
from rlrepro.fit.tianshou import default_distribution
from rlrepro.lab import VirtualCard, peak_memory

EPISODE = 50  # steps


class Actor(nn.Module):
    """Logits of a Discrete space, or (mean, scale) of a Box, as tianshou's actors return them."""

    def __init__(self, body, width: int, act_space: spaces.Space):
        super().__init__()
        self.discrete = isinstance(act_space, spaces.Discrete)
        outputs = int(act_space.n) if self.discrete else act_space.shape[0]
        self.body, self.head = body, nn.Linear(width, outputs)
        self.log_scale = nn.Parameter(torch.zeros(1 if self.discrete else outputs))

    def forward(self, obs, state=None, info=None, **_):
        outputs = self.head(self.body(obs))
        return (outputs if self.discrete else (outputs, self.log_scale.exp().expand_as(outputs))), state


class Critic(nn.Module):
    def __init__(self, body, width: int):
        super().__init__()
        self.body, self.head = body, nn.Linear(width, 1)

    def forward(self, obs, **_):
        return self.head(self.body(obs))


def measured(stages: dict[str, Callable], card: VirtualCard) -> dict[str, tuple[int, int]]:
    """(bytes of live tensors, allocated bytes) of each stage at its peak, including what was live before; on a GPU,
    (allocated bytes, reserved bytes). On a CPU, the profiler counts the free of a block only if it saw the allocation,
    so stages must not free blocks that it didn't see."""
    peaks = {}
    for name, stage in stages.items():
        card.restart_peak()
        if card.device.type == "cuda":
            stage()
            peaks[name] = card.peak_bytes, torch.cuda.max_memory_reserved(card.device)
            continue
        live = card.live_bytes
        allocated = live + peak_memory(stage, device="cpu", warmup=0).peak_bytes
        peaks[name] = card.peak_bytes, allocated
    return peaks


def run_tianshou(
    library, networks, obs_space, act_space, optimizer, rollout, batch_size, max_batchsize, device="cpu"
) -> dict:
    """The peaks of the second update, when gradients and the optimizer's state exist."""
    from tianshou.algorithm import A2C

    rows, results = _rollout(rollout, obs_space, act_space), []
    with VirtualCard(None, device=device) as card:
        algorithm = ppo(
            *(network.to(device) for network in networks()),
            max_batchsize=max_batchsize,
            dist_fn=default_distribution(act_space),
            action_space=act_space,
            optimizer=optimizer,
            cls=A2C if library.endswith("a2c") else None,
        )
        algorithm.train()
        stages = {
            "preprocess": lambda: results.append(preprocess(algorithm, *rows)),
            "learn": lambda: algorithm._update_with_batch(results.pop(), batch_size, 1),
        }
        return _second_update(stages, card, algorithm)


def run_sb3(make_model: Callable, device="cpu") -> dict:
    """The same for Stable-Baselines3's PPO, on a model that is made on that device."""
    with VirtualCard(None, device=device) as card:
        model = make_model()
        return _second_update({"learn": model.train}, card, model.policy)


def _second_update(stages, card, module) -> dict:
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data.view(-1)  # an operator, so that the card also counts tensors that nothing reads
    measured(stages, card)
    return measured(stages, card)


def _rollout(rows: int, obs_space, act_space):
    """(batch, buffer, indices) of random transitions."""
    from tianshou.data import Batch, ReplayBuffer

    for seed, space in enumerate((obs_space, act_space)):
        space.seed(seed)
    buffer = ReplayBuffer(rows)
    for row in range(rows):
        done = (row + 1) % EPISODE == 0
        fields = {"obs": obs_space.sample(), "obs_next": obs_space.sample(), "act": act_space.sample(), "rew": 1.0}
        buffer.add(Batch(**fields, terminated=done, truncated=False, done=done, info={}))
    batch, indices = buffer.sample(0)
    return batch, buffer, indices


def sb3_model(body_and_width, obs_space, act_space, optimizer, rollout: int, batch_size: int, device="cpu"):
    """Stable-Baselines3's PPO with that body and a full rollout buffer."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    body, width = body_and_width

    class Extractor(BaseFeaturesExtractor):
        def __init__(self, space):
            super().__init__(space, width)
            self.body = body

        def forward(self, rows):
            return self.body(rows)

    class Env(gym.Env):
        observation_space, action_space = obs_space, act_space

    network = {"features_extractor_class": Extractor, "normalize_images": False, "optimizer_class": optimizer}
    sizes = {"n_steps": rollout, "batch_size": batch_size, "n_epochs": 1}
    model = PPO("MlpPolicy", Env(), **sizes, policy_kwargs=network, device=device)
    model.set_logger(Logger(None, []))
    model.rollout_buffer.full = True
    if isinstance(act_space, spaces.Discrete):
        model.rollout_buffer.actions = np.zeros_like(model.rollout_buffer.actions)
    return model
