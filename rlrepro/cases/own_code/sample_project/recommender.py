"""DQN that chooses one of many items."""

import gymnasium as gym
import numpy as np
from torch import nn, optim
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import QValueActor
from torchrl.objectives import DQNLoss

ITEMS = 5000


class Shop(gym.Env):
    """A visitor, in four numbers, is shown an item."""

    action_space = gym.spaces.Discrete(ITEMS)
    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 4).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 4).astype(np.float32), float(action % 2), False, False, {}


def train():
    env = GymWrapper(Shop())
    network = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, ITEMS))
    actor = QValueActor(network, in_keys=["observation"], spec=env.action_spec)
    loss = DQNLoss(actor, action_space=env.action_spec)
    loss.make_value_estimator(gamma=0.99)
    optimizer = optim.Adam(loss.parameters())
    buffer = ReplayBuffer(storage=LazyTensorStorage(1000), batch_size=32)
    for _ in range(10):
        buffer.extend(env.rollout(20, actor))
        optimizer.zero_grad()
        loss(buffer.sample())["loss"].backward()
        optimizer.step()


if __name__ == "__main__":
    train()
