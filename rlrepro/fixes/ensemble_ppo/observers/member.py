"""A member of an ensemble as callbacks of Stable-Baselines3 see it."""

from collections import deque

import numpy as np
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from .sb3_model import spaces_of

EPISODES = 100  # in a mean, as Stable-Baselines3's stats_window_size


class Member:
    """The part of a model that Stable-Baselines3's callbacks and `evaluate_policy` use, with its hyperparameters.
    `policy` is a copy of the member's policy, made at its first use after an update. `save` writes a model, for
    Stable-Baselines3's PPO.load. `rollout_buffer` is a copy of the last finished rollout. The environment of `get_env`
    has the spaces and, if the ensemble normalizes, the member's VecNormalize as it is now, but can't be stepped.
    `total_timesteps` are those of this call of `learn`."""

    def __init__(self, ensemble, index: int, logger: Logger, total_timesteps: int):
        self.ensemble, self.index, self.logger = ensemble, index, logger
        self.observation_space, self.action_space = ensemble.observation_space, ensemble.action_space
        self.n_envs, self.n_steps, self.seed = ensemble.n_envs, ensemble.n_steps, ensemble.seeds[index]
        self.batch_size, self.n_epochs = ensemble.batch_size, ensemble.n_epochs
        self.device, self.verbose = "cpu", 0
        self._num_timesteps_at_start = self.num_timesteps
        self._total_timesteps = self.num_timesteps + total_timesteps
        self._policy = self._rollout = None
        vars(self).update(ensemble.hyperparameters.of(index))

    @property
    def num_timesteps(self) -> int:
        return self.ensemble.num_timesteps

    @property
    def _current_progress_remaining(self) -> float:
        return 1 - self.num_timesteps / self._total_timesteps

    @property
    def policy(self):
        if self._policy is None:
            self._policy = self.ensemble.policy(self.index)
        return self._policy

    @property
    def ep_info_buffer(self) -> deque:
        """The last episodes, as a Monitor reports them."""
        episodes = self.ensemble.episodes[self.index]
        last = zip(episodes.returns[-EPISODES:], episodes.lengths[-EPISODES:], strict=True)
        return deque(({"r": episode_return, "l": length} for episode_return, length in last), maxlen=EPISODES)

    @property
    def ep_success_buffer(self) -> deque:
        """Whether the last episodes succeeded, if their infos have `is_success`."""
        return deque(self.ensemble.episodes[self.index].successes[-EPISODES:], maxlen=EPISODES)

    @property
    def rollout_buffer(self) -> RolloutBuffer:
        spaces = self.observation_space, self.action_space
        buffer = RolloutBuffer(self.n_steps, *spaces, self.device, self.gae_lambda, self.gamma, self.n_envs)
        if self._rollout is not None:
            rollout, steps = self._rollout
            arrays = {name: np.stack([step[name][self.index] for step in steps]) for name in steps[0]}
            for name, values in vars(rollout).items():  # (K, E × T, ...)
                member_values = values[self.index].cpu().numpy()
                arrays[name] = member_values.reshape(self.n_envs, self.n_steps, *member_values.shape[1:]).swapaxes(0, 1)
            for name, array in arrays.items():
                target = getattr(buffer, name)
                target[...] = array.reshape(target.shape)
            buffer.pos, buffer.full = self.n_steps, True
        return buffer

    def keep_rollout(self, rollout, steps: list[dict[str, np.ndarray]]) -> None:
        """Keep the ensemble's Rollout and, for each step, the arrays (K, E) that it lacks, for `rollout_buffer`."""
        self._rollout = rollout, steps

    def forget_policy(self) -> None:
        """Copy the policy again at its next use."""
        self._policy = None

    def predict(self, *args, **options):
        return self.policy.predict(*args, **options)

    def save(self, path, *args, **options) -> None:
        self.ensemble.model(self.index).save(path, *args, **options)

    def get_env(self) -> VecEnv:
        env = spaces_of(self.ensemble)
        return self.ensemble.vec_env(self.index, env) if self.ensemble.normalize else env

    def get_vec_normalize_env(self) -> VecNormalize | None:
        return self.get_env() if self.ensemble.normalize else None
