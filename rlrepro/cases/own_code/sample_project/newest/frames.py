"""PPO on image observations with RLlib."""

import gymnasium as gym
import numpy as np
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

ROLLOUT = 512  # timesteps


class Maze(gym.Env):
    """Random frames of 84 x 84 pixels."""

    observation_space = gym.spaces.Box(0, 1, (84, 84, 4), np.float32)
    action_space = gym.spaces.Discrete(6)

    def __init__(self, config=None):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random((84, 84, 4), np.float32), {}

    def step(self, action):
        self.steps += 1
        return self.np_random.random((84, 84, 4), np.float32), float(action == 0), self.steps == 100, False, {}


def train():
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    register_env("maze", Maze)
    config = (
        PPOConfig()
        .environment("maze")
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=ROLLOUT, minibatch_size=64, num_epochs=1)
        .rl_module(model_config=DefaultModelConfig(conv_filters=[[16, 8, 4], [32, 4, 2]]))
    )
    algorithm = config.build_algo()
    algorithm.train()
    algorithm.stop()


if __name__ == "__main__":
    train()
