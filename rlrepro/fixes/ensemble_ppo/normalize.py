"""VecNormalize for the members of an ensemble: each has its own running statistics, as it would have alone."""

import numpy as np
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecNormalize


class MemberNormalize:
    """The arithmetic of Stable-Baselines3's VecNormalize for K members of E environments each.

    Args:
        options: arguments of VecNormalize; `gamma` may be one value for each member
    """

    def __init__(
        self,
        members: int,
        n_envs: int,
        shape: tuple[int, ...],
        *,
        norm_obs: bool = True,
        norm_reward: bool = True,
        clip_obs: float = 10.0,
        clip_reward: float = 10.0,
        gamma=0.99,
        epsilon: float = 1e-8,
    ):
        self.norm_obs, self.norm_reward, self.epsilon = norm_obs, norm_reward, epsilon
        self.clip_obs, self.clip_reward = clip_obs, clip_reward
        self.gamma = np.broadcast_to(np.asarray(gamma, float), (members,))
        self.obs_rms = RunningMeanStd(np.full((members, *[1] * len(shape)), 1e-4), (members, *shape))
        self.ret_rms = RunningMeanStd(np.full(members, 1e-4), (members,))
        self.returns = np.zeros((n_envs, members))

    def reset(self, observations: np.ndarray) -> np.ndarray:
        """Normalizes the first observations (K, E, ...)."""
        self.returns[:] = 0
        return self._update_and_normalize(observations)

    def step(self, observations: np.ndarray, rewards: np.ndarray, dones: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normalizes the observations (K, E, ...) and rewards (K, E) of a step."""
        observations = self._update_and_normalize(observations)
        rewards = rewards.astype(np.float32).T
        self.returns = self.returns * self.gamma + rewards
        self.ret_rms.update(self.returns)
        if self.norm_reward:
            rewards = rewards / np.sqrt(self.ret_rms.var + self.epsilon)
            rewards = np.clip(rewards, -self.clip_reward, self.clip_reward).astype(np.float32)
        self.returns[dones.T] = 0
        return observations, rewards.T

    def normalize_final(self, member: int, observation: np.ndarray) -> np.ndarray:
        """Normalizes the last observation of an episode."""
        if not self.norm_obs:
            return observation
        return self._scaled(observation, self.obs_rms.mean[member], self.obs_rms.var[member])

    def statistics(self, member: int) -> list[np.ndarray]:
        """The member's means, variances and counts, to be read or written."""
        return [array[member, ...] for rms in (self.obs_rms, self.ret_rms) for array in (rms.mean, rms.var, rms.count)]

    def of(self, member: int, venv: VecEnv) -> VecNormalize:
        """Stable-Baselines3's VecNormalize around `venv`, with a copy of the member's statistics; they stay as they
        are until you set `training`."""
        options = {name: getattr(self, name) for name in ("norm_obs", "norm_reward", "clip_obs", "clip_reward")}
        options |= {"gamma": float(self.gamma[member]), "epsilon": self.epsilon}
        wrapped = VecNormalize(venv, training=False, **options)
        for name in ("obs_rms", "ret_rms"):
            ours, theirs = getattr(self, name), RunningMeanStd(getattr(self, name).count[member].item())
            theirs.mean, theirs.var = ours.mean[member].copy(), ours.var[member].copy()
            setattr(wrapped, name, theirs)
        return wrapped

    def _update_and_normalize(self, observations: np.ndarray) -> np.ndarray:
        if not self.norm_obs:
            return observations
        observations = observations.swapaxes(0, 1)  # the statistics are over environments, (E, K, ...)
        self.obs_rms.update(observations)
        return self._scaled(observations, self.obs_rms.mean, self.obs_rms.var).swapaxes(0, 1)

    def _scaled(self, observations, mean, var) -> np.ndarray:
        scaled = (observations - mean) / np.sqrt(var + self.epsilon)
        return np.clip(scaled, -self.clip_obs, self.clip_obs).astype(np.float32)
