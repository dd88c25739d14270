"""TorchRL's two encodings of a discrete action: one-hot, GymEnv's default, and `categorical_action_encoding=True`."""

import gymnasium as gym
import numpy as np
from tensordict import TensorDict
from torch import nn
from torchrl.data import LazyTensorStorage, OneHot, ReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import QValueActor
from torchrl.objectives import DQNLoss

from rlrepro.lab import peak_memory

OBSERVATION, STEPS = 4, 8


class ManyActions(gym.Env):
    """An environment with `count` actions, in which nothing happens."""

    def __init__(self, count: int):
        self.action_space = gym.spaces.Discrete(count)
        self.observation_space = gym.spaces.Box(-1, 1, (OBSERVATION,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(OBSERVATION, np.float32), {}

    def step(self, action):
        return np.zeros(OBSERVATION, np.float32), 0.0, False, False, {}


def measure(count: int, *, categorical: bool, device: str) -> dict[str, int]:
    """Bytes of one action in a filled replay buffer, and peak bytes of one DQN update on a batch from it."""
    env = GymWrapper(ManyActions(count), categorical_action_encoding=categorical)
    buffer = ReplayBuffer(storage=LazyTensorStorage(STEPS), batch_size=STEPS)
    buffer.extend(env.rollout(STEPS))
    network = nn.Sequential(nn.Linear(OBSERVATION, 32), nn.ReLU(), nn.Linear(32, count))
    actor = QValueActor(network, in_keys=["observation"], spec=env.action_spec).to(device)
    loss_module = DQNLoss(actor, action_space=env.action_spec)
    loss_module.make_value_estimator(gamma=0.99)

    def update():
        batch = buffer.sample().to(device)
        loss_module.zero_grad()
        loss_module(batch)["loss"].backward()

    return {"action": _bytes_per_step(buffer, "action"), "peak": peak_memory(update, device=device).peak_bytes}


def spec_bytes(count: int) -> int:
    """Bytes of an action from TorchRL's OneHot spec in a replay buffer, if no environment sets the dtype."""
    buffer = ReplayBuffer(storage=LazyTensorStorage(STEPS))
    buffer.extend(TensorDict({"action": OneHot(count).rand([STEPS])}, batch_size=[STEPS]))
    return _bytes_per_step(buffer, "action")


def _bytes_per_step(buffer: ReplayBuffer, key: str) -> int:
    return buffer.storage._storage[key].untyped_storage().nbytes() // STEPS
