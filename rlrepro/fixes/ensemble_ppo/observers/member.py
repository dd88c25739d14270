"""A member of an ensemble as callbacks of Stable-Baselines3 see it."""

from collections import deque
from functools import partial

import gymnasium as gym
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

EPISODES = 100  # that a mean is taken of, as Stable-Baselines3's stats_window_size


class Member:
    """What Stable-Baselines3's callbacks and `evaluate_policy` ask of a model, with its hyperparameters. `policy` is a
    copy of the member's, made when it is asked for after an update; `save` writes it, for ActorCriticPolicy.load.
    `get_env` has the spaces and, if the ensemble normalizes, the member's VecNormalize as it is now, but can't be
    stepped."""

    def __init__(self, ensemble, index: int, logger: Logger):
        self.ensemble, self.index, self.logger = ensemble, index, logger
        self.observation_space, self.action_space = ensemble.observation_space, ensemble.action_space
        self.n_envs, self.n_steps, self.seed = ensemble.n_envs, ensemble.n_steps, ensemble.seeds[index]
        self.batch_size, self.n_epochs = ensemble.batch_size, ensemble.n_epochs
        self.device, self.verbose = "cpu", 0
        self._policy = None
        vars(self).update(ensemble.hyperparameters.of(index))

    @property
    def num_timesteps(self) -> int:
        return self.ensemble.num_timesteps

    @property
    def policy(self):
        if self._policy is None:
            self._policy = self.ensemble.policy(self.index)
        return self._policy

    @property
    def ep_info_buffer(self) -> deque:
        """The last episodes, as a Monitor tells them."""
        episodes = self.ensemble.episodes[self.index]
        last = zip(episodes.returns[-EPISODES:], episodes.lengths[-EPISODES:], strict=True)
        return deque(({"r": total, "l": length} for total, length in last), maxlen=EPISODES)

    def forget_policy(self) -> None:
        """Copy it again when it is asked for."""
        self._policy = None

    def predict(self, *args, **options):
        return self.policy.predict(*args, **options)

    def save(self, path, *args, **options) -> None:
        self.policy.save(path)

    def get_env(self) -> VecEnv:
        env = DummyVecEnv([partial(_Spaces, self)] * self.n_envs)
        return self.ensemble.vec_env(self.index, env) if self.ensemble.normalize else env

    def get_vec_normalize_env(self) -> VecNormalize | None:
        return self.get_env() if self.ensemble.normalize else None


class _Spaces(gym.Env):
    def __init__(self, member: Member):
        self.observation_space, self.action_space = member.observation_space, member.action_space
