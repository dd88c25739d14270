import sys

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class Thousandths(gym.ObservationWrapper):
    """CartPole, whose observations are whole thousandths, as floats or as integers."""

    def __init__(self, dtype):
        super().__init__(gym.make("CartPole-v1"))
        self.observation_space = gym.spaces.Box(-(10**6), 10**6, (4,), dtype)

    def observation(self, observation):
        return (1000 * observation).round().astype(self.observation_space.dtype)


class LastRollout(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_end(self):
        """Compares the stored log-probabilities with those of the stored observations and actions."""
        buffer = self.model.rollout_buffer
        self.distinct = len(np.unique(buffer.observations))
        obs, actions = (torch.as_tensor(array[:, 0]).float() for array in (buffer.observations, buffer.actions))
        log_probs = self.model.policy.evaluate_actions(obs, actions[:, 0])[1].detach().numpy()
        self.ratios = np.exp(log_probs - buffer.log_probs[:, 0])  # of PPO, before its first gradient step


largest = {}
for dtype in (np.float32, np.int32):
    venv, rollout = VecNormalize(DummyVecEnv([lambda dtype=dtype: Thousandths(dtype)])), LastRollout()
    PPO("MlpPolicy", venv, n_steps=1024, seed=0, device="cpu").learn(4096, callback=rollout)
    largest[dtype], clipped = max(rollout.ratios), np.mean(abs(rollout.ratios - 1) > 0.2)
    print(f"{dtype.__name__}: 4,096 stored numbers have {rollout.distinct:,} different values; before the first step")
    print(f"    PPO's ratios are at most {largest[dtype]:.2f}, and {clipped:.0%} of them lie outside the clip range")
sys.exit(bool(largest[np.int32] > 1.001))
