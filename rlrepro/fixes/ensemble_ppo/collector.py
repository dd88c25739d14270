"""Collects the rollouts of an ensemble: every member acts in its own environments, which step together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch.distributions import Normal

from .envs import FINAL_OBS, INFO
from .normalize import MemberNormalize
from .rollout import Rollout, advantages_of
from .stacked_policies import StackedPolicies, joint


@dataclass
class Episodes:
    """One member's finished episodes: returns, lengths, the member's timesteps when each ended, and known successes."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    timesteps: list[int] = field(default_factory=list)
    successes: list[bool] = field(default_factory=list)


class Collector:
    """Steps the environments of K members; each member acts with its own weights and its own random generator.

    `envs` holds n_envs environments for each member, side by side. `episodes[k]` has the finished episodes of member k,
    and `num_timesteps` counts the timesteps of each member in all of its environments. gamma and gae_lambda (K,) are
    those of the members.
    """

    def __init__(
        self,
        envs: VectorEnv,
        networks: StackedPolicies,
        generators: Sequence[torch.Generator],
        seeds: Sequence[int],
        *,
        gamma: np.ndarray,
        gae_lambda: np.ndarray,
        normalize: MemberNormalize | None = None,
    ):
        self.envs, self.networks, self.generators, self.seeds = envs, networks, generators, seeds
        self.members, self.n_envs = len(seeds), envs.num_envs // len(seeds)
        self.normalize = normalize
        self.gamma, self.gae_lambda = gamma[:, None], gae_lambda[:, None]  # (K, 1), against (K, E)
        self.episodes = [Episodes() for _ in seeds]
        self.num_timesteps = 0
        self._observations = self._noise = None

    def collect(self, n_steps: int, after_step: Callable | None = None) -> Rollout | None:
        """A rollout of `n_steps` in each environment, which continues where the last one ended. After each step,
        `after_step` is called with arrays (K, E, ...) under Stable-Baselines3's names, the result of `_count`, and the
        infos of the environments (K × E), if they have any. Returns None if `after_step` returned False."""
        if self._observations is None:
            self._start()
        action_space = self.envs.single_action_space
        shape = n_steps, self.members, self.n_envs
        observations = np.empty((*shape, *self._observations.shape[2:]), np.float32)
        actions = np.empty((*shape, *action_space.shape), action_space.dtype)
        rewards, starts = np.empty(shape, np.float32), np.empty(shape, bool)
        time_limits = []  # (step, member, environment, last observation) of episodes that a time limit ended
        for step in range(n_steps):
            observations[step], starts[step] = self._observations, self._starts
            actions[step] = self._act(observations[step])
            self._observations, rewards[step], terminated, truncated, infos = self._step(actions[step])
            self._starts = terminated | truncated
            finished = self._count(rewards[step], self._starts, infos.get(INFO))
            if self.normalize is not None:
                self._observations, rewards[step] = self.normalize.step(self._observations, rewards[step], self._starts)
            if after_step is not None:
                arrays = {"actions": actions[step], "new_obs": self._observations}
                arrays |= {"rewards": rewards[step], "dones": self._starts, "episode_starts": starts[step]}
                if not after_step(arrays, finished, infos.get(INFO)):
                    return None
            for member, env in np.argwhere(truncated & ~terminated):
                final = infos[FINAL_OBS][member * self.n_envs + env]
                if self.normalize is not None:
                    final = self.normalize.normalize_final(member, final)
                time_limits.append((step, member, env, np.array(final)))  # which the environment may reuse
        return self._rollout(observations, actions, rewards, starts, time_limits)

    def state(self) -> dict:
        """The counts and statistics so far, for `restore`."""
        statistics = self.normalize and (self.normalize.obs_rms, self.normalize.ret_rms)
        return {"episodes": self.episodes, "num_timesteps": self.num_timesteps, "statistics": statistics}

    def restore(self, state: dict) -> None:
        """Continue from a `state`."""
        self.episodes, self.num_timesteps = state["episodes"], state["num_timesteps"]
        if self.normalize is not None:
            self.normalize.obs_rms, self.normalize.ret_rms = state["statistics"]

    def _start(self) -> None:
        seeds = [seed + env for seed in self.seeds for env in range(self.n_envs)]
        observations = self._per_member(self.envs.reset(seed=seeds)[0])
        self._starts = np.ones((self.members, self.n_envs), bool)
        self._returns, self._lengths = np.zeros((2, self.members, self.n_envs))
        self._observations = observations if self.normalize is None else self.normalize.reset(observations)

    def _per_member(self, array):
        """(K × E, ...) to (K, E, ...)."""
        return array.reshape(self.members, self.n_envs, *array.shape[1:])

    def _act(self, observations: np.ndarray) -> np.ndarray:
        """An action for each environment, drawn with the generator of its member."""
        with torch.no_grad():
            distribution = self.networks.distribution(torch.as_tensor(observations, device=self.networks.device))
            if isinstance(distribution, Normal):
                noise = self._draw(torch.Tensor.normal_, distribution.loc)
                actions = distribution.loc + distribution.scale * noise
            else:  # what torch.multinomial does for one sample, for all members in one call
                actions = (distribution.probs / self._draw(torch.Tensor.exponential_, distribution.probs)).argmax(-1)
        return actions.cpu().numpy().reshape(self.members, self.n_envs, *self.envs.single_action_space.shape)

    def _draw(self, fill: Callable, like: torch.Tensor) -> torch.Tensor:
        """A tensor with the shape of `like` (K, ...), in which each member's part is filled by its own generator."""
        if self._noise is None:
            self._noise = torch.empty(like.shape)  # on the CPU, as the generators are
            self._parts = self._noise.unbind()
        for part, generator in zip(self._parts, self.generators, strict=True):
            fill(part, generator=generator)
        return self._noise.to(like.device)

    def _step(self, actions: np.ndarray):
        space = self.envs.single_action_space
        if isinstance(space, gym.spaces.Box):
            actions = np.clip(actions, space.low, space.high)
        try:
            *arrays, infos = self.envs.step(actions.reshape(-1, *space.shape))
        except BaseException:
            self._observations = None  # only some environments may have stepped: the next rollout resets all
            raise
        return *map(self._per_member, arrays), infos

    def _count(self, rewards: np.ndarray, dones: np.ndarray, infos) -> list[tuple[int, int, float, int]]:
        """The episodes that end here: member, environment, return and length. `infos` (K × E), or None."""
        self.num_timesteps += self.n_envs
        self._returns += rewards
        self._lengths += 1
        ends = np.argwhere(dones)
        finished = [(*end, float(self._returns[end]), int(self._lengths[end])) for end in map(tuple, ends.tolist())]
        for member, env, episode_return, length in finished:
            episodes = self.episodes[member]
            episodes.returns.append(episode_return)
            episodes.lengths.append(length)
            episodes.timesteps.append(self.num_timesteps)
            if infos is not None and (success := infos[member * self.n_envs + env][0].get("is_success")) is not None:
                episodes.successes.append(success)
        self._returns[dones] = self._lengths[dones] = 0
        return finished

    def _rollout(self, observations, actions, rewards, starts, time_limits) -> Rollout:
        """Adds values, log-probabilities and advantages to the collected transitions, all at once."""
        with torch.no_grad():
            inputs, flat_actions = (self._member_first(array) for array in (observations, actions))  # (K, N, ...)
            log_probs = joint(self.networks.distribution(inputs).log_prob(flat_actions))
            values = self.networks.values(inputs)
            last_values = self._values_of(self._observations)
            for (step, member, env, _), value in zip(time_limits, self._values_after(time_limits), strict=True):
                # the return expected after the time limit
                rewards[step, member, env] += self.gamma[member, 0].astype(np.float32) * value
        step_values = np.moveaxis(values.cpu().numpy().reshape(self.members, self.n_envs, -1), 2, 0)  # (T, K, E)
        advantages = advantages_of(rewards, step_values, starts, last_values, self._starts, self.gamma, self.gae_lambda)
        returns = advantages + step_values
        return Rollout(inputs, flat_actions, values, log_probs, *map(self._member_first, (advantages, returns)))

    def _values_after(self, time_limits) -> list[float]:
        """Each member's value of the last observation of these episodes, all in one forward pass."""
        finals = [[] for _ in self.seeds]
        for _, member, _, final in time_limits:
            finals[member].append(final)
        padded = np.zeros((self.members, max(map(len, finals)), *self._observations.shape[2:]), np.float32)
        for member, observations in enumerate(finals):
            if observations:
                padded[member, : len(observations)] = observations
        remaining = [iter(values) for values in self._values_of(padded)]
        return [next(remaining[member]) for _, member, _, _ in time_limits]

    def _values_of(self, observations: np.ndarray) -> np.ndarray:
        return self.networks.values(torch.as_tensor(observations, device=self.networks.device)).cpu().numpy()

    def _member_first(self, array: np.ndarray) -> torch.Tensor:
        """(T, K, E, ...) to (K, E × T, ...), contiguous: each minibatch would copy it otherwise."""
        array = np.ascontiguousarray(np.moveaxis(array, 0, 2))
        return torch.as_tensor(array.reshape(self.members, -1, *array.shape[3:]), device=self.networks.device)
