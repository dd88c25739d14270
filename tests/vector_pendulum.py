"""Gymnasium's Pendulum-v1 for many environments at once, with the same arithmetic and the same seeds."""

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

MAX_STEPS = 200


class VectorPendulum(VectorEnv):
    def __init__(self, num_envs: int, max_steps: int = MAX_STEPS):
        single = gym.make("Pendulum-v1")
        self.num_envs, self.max_steps = num_envs, max_steps
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space, self.single_action_space = single.observation_space, single.action_space

    def reset(self, *, seed=None, options=None):
        self.generators = [np.random.Generator(np.random.PCG64(env_seed)) for env_seed in seed]
        self.states, self.lengths = np.array([self._first(env) for env in range(self.num_envs)]), 0
        self.lengths = np.zeros(self.num_envs, int)
        return self._observations(), {}

    def step(self, actions):
        angle, speed = self.states.T
        torque = np.clip(actions[:, 0], -2, 2)
        wrapped_angle = ((angle + np.pi) % (2 * np.pi)) - np.pi
        rewards = -(wrapped_angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed = np.clip(speed + (15 * np.sin(angle) + 3 * torque) * 0.05, -8, 8)
        self.states = np.stack([angle + speed * 0.05, speed], 1)
        self.lengths += 1
        truncated, final_obs = self.lengths >= self.max_steps, self._observations()
        for env in np.flatnonzero(truncated):
            self.states[env] = self._first(env)
        self.lengths[truncated] = 0
        return self._observations(), rewards, np.zeros_like(truncated), truncated, {"final_obs": final_obs}

    def _first(self, env: int):
        return self.generators[env].uniform([-np.pi, -1], [np.pi, 1])

    def _observations(self):
        angle, speed = self.states.T
        return np.stack([np.cos(angle), np.sin(angle), speed], 1).astype(np.float32)
