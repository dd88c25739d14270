"""EnsemblePPO: K independent PPO learners as one batched network in one process."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch.distributions import Normal

from .checks import check_minibatches, check_policy
from .envs import FINAL_OBS, make_envs
from .rollout import Rollout, advantages_of
from .stacked_policies import StackedPolicies, joint

KL_SLACK = 1.5  # Stable-Baselines3 stops a member's update where the divergence passes this times target_kl


@dataclass
class Episodes:
    """Of one member, an entry for each episode that has ended: its return, its length, and the member's steps then."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    timesteps: list[int] = field(default_factory=list)


class EnsemblePPO:
    """Train K independent PPO learners at once; member k learns what Stable-Baselines3's
    `PPO("MlpPolicy", env, seed=seeds[k])` would learn alone with these hyper-parameters, up to rounding.

    env            an id of Gymnasium, a function that makes an environment, or one of these for each member
    seeds          of the members; as many as there are to be
    n_envs         environments a member
    vectorization  "sync" steps the environments here, "async" each in a process of its own (needs loky), "auto"
                   measures which is faster

    The other parameters are Stable-Baselines3's, whose PPO documents them. Networks are its `MlpPolicy`, with
    `policy_kwargs`; learning_rate and clip_range may be functions of the remaining progress (1 to 0). All members share
    them. An environment must draw from its own `np_random`, not from NumPy's global generator.

    Raises ValueError for what is not batched: observations other than vectors, actions other than Discrete or a vector
    of floats, spaces that differ between members, optimizers other than Adam and AdamW, feature extractors, gSDE; and
    in `learn` where weights of a member are no longer finite.

    `episodes[k]` has what member k has reached, `policy(k)` gives its policy for use with Stable-Baselines3.

    Tested with stable-baselines3 2.3.2, 2.4.1, 2.5.0, 2.6.0, 2.7.1, 2.8.0, 2.9.2.
    """

    def __init__(
        self,
        env: str | Callable[[], gym.Env] | Sequence[str | Callable[[], gym.Env]],
        *,
        seeds: Sequence[int],
        n_envs: int = 1,
        learning_rate: float | Callable[[float], float] = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float | Callable[[float], float] = 0.2,
        clip_range_vf: float | Callable[[float], float] | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        target_kl: float | None = None,
        policy_kwargs: dict | None = None,
        vectorization: str = "auto",
        device: str | torch.device = "cpu",
    ):
        self.seeds = [int(seed) for seed in seeds]
        sizes = {"seeds": len(self.seeds), "n_envs": n_envs, "n_steps": n_steps, "batch_size": batch_size}
        for name, size in (sizes | {"n_epochs": n_epochs}).items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, found {size}")
        check_minibatches(batch_size, n_steps * n_envs, normalize_advantage, clip_range_vf)
        self.n_envs, self.n_steps, self.batch_size, self.n_epochs = n_envs, n_steps, batch_size, n_epochs
        self.gamma, self.gae_lambda, self.normalize_advantage = gamma, gae_lambda, normalize_advantage
        self.ent_coef, self.vf_coef, self.max_grad_norm, self.target_kl = ent_coef, vf_coef, max_grad_norm, target_kl
        self.learning_rate, self.clip_range = _schedule(learning_rate), _schedule(clip_range)
        self.clip_range_vf = None if clip_range_vf is None else _schedule(clip_range_vf)
        self.device, self.policy_kwargs = torch.device(device), policy_kwargs or {}
        self.envs = make_envs(env, len(self), n_envs, vectorization)
        self.observation_space, self.action_space = self.envs.single_observation_space, self.envs.single_action_space
        policies, self._generators = zip(*map(self._seeded_policy, self.seeds), strict=True)
        check_policy(policies[0])
        self.networks = StackedPolicies(policies, self.device)
        fused = self.device.type == "cuda" or tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)
        # all weights as one parameter; where members may stop on their own, those of each
        self._parts = [self.networks.flat] if target_kl is None else list(self.networks.flat.unbind())
        self.optimizer = torch.optim.Adam(
            self._parts, **{**policies[0].optimizer.defaults, "fused": fused, "foreach": None}
        )
        self._orders = [np.random.RandomState(seed) for seed in self.seeds]
        self.episodes = [Episodes() for _ in self.seeds]
        self.num_timesteps = 0  # of each member
        self._observations = None

    def __len__(self) -> int:
        return len(self.seeds)

    def learn(self, total_timesteps: int, *, progress: bool = False) -> "EnsemblePPO":
        """Train each member for at least so many steps: whole rollouts, as in Stable-Baselines3. May be called again to
        go on, as with its `reset_num_timesteps=False`."""
        last = self.num_timesteps + total_timesteps
        with _bar(total_timesteps * len(self)) if progress else nullcontext() as bar:
            while self.num_timesteps < last:
                rollout = self.collect()
                self.update(rollout, remaining=1 - self.num_timesteps / last)
                self._check_weights()
                if bar is not None:
                    bar.update(rollout.values.numel())
        return self

    def policy(self, member: int) -> ActorCriticPolicy:
        """Stable-Baselines3's policy with this member's weights; `.predict` and `.save` are its own."""
        with torch.random.fork_rng(devices=[]):
            policy = self._new_policy()
        self.networks.copy_to(member, policy)
        return policy

    def __reduce__(self):
        raise TypeError("an EnsemblePPO can't be copied or sent to another process; give policy(k) of its members")

    def close(self) -> None:
        """End the environments and their processes."""
        self.envs.close()

    def collect(self) -> Rollout:
        """Let each member act for `n_steps` in each of its environments."""
        if self._observations is None:
            self._start()
        shape = self.n_steps, len(self), self.n_envs
        observations = np.empty((*shape, *self.observation_space.shape), np.float32)
        actions = np.empty((*shape, *self.action_space.shape), self.action_space.dtype)
        rewards, starts = np.empty(shape, np.float32), np.empty(shape, bool)
        cut_short = []  # (step, member, environment, what was seen last) of episodes that a time limit ended
        for step in range(self.n_steps):
            observations[step], starts[step] = self._observations, self._starts
            actions[step] = self._act(observations[step])
            seen, rewards[step], terminated, truncated, infos = self._step(actions[step])
            for member, env in np.argwhere(truncated & ~terminated):
                cut_short.append((step, member, env, infos[FINAL_OBS][member * self.n_envs + env]))
            self._observations, self._starts = seen, terminated | truncated
            self._count(rewards[step], self._starts)
        return self._rollout(observations, actions, rewards, starts, cut_short)

    def update(self, rollout: Rollout, remaining: float = 1.0) -> None:
        """PPO's update of each member by its own rows, in its own order; `remaining` is the progress that schedules
        see."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(remaining)
        clips = self.clip_range(remaining), self.clip_range_vf(remaining) if self.clip_range_vf else None
        going = np.ones(len(self), bool)  # members that have not moved too far
        orders = np.empty(rollout.values.shape, np.int64)  # (K, N)
        for _ in range(self.n_epochs):
            for member in np.flatnonzero(going):
                orders[member] = self._orders[member].permutation(orders.shape[1])
            for minibatch in rollout.minibatches(orders, self.batch_size):
                self._step_down(minibatch, *clips, going)
                if not going.any():
                    return

    def losses(self, batch: Rollout, clip_range: float, clip_range_vf: float | None = None):
        """PPO's loss of each member (K,), and how far its policy has moved since the rollout, as an estimate of the
        Kullback-Leibler divergence (K,)."""
        distribution = self.networks.distribution(batch.observations)
        values = self.networks.values(batch.observations)  # (K, B)
        advantages = batch.advantages
        if self.normalize_advantage and advantages.shape[1] > 1:
            deviation, mean = torch.std_mean(advantages, dim=1, keepdim=True)
            advantages = (advantages - mean) / (deviation + 1e-8)
        log_ratio = joint(distribution.log_prob(batch.actions)) - batch.log_probs
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
        policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean(1)
        if clip_range_vf is not None:
            values = batch.values + (values - batch.values).clamp(-clip_range_vf, clip_range_vf)
        value_loss = (batch.returns - values).square().mean(1)
        loss = policy_loss + self.vf_coef * value_loss
        if self.ent_coef:
            loss = loss - self.ent_coef * joint(distribution.entropy()).mean(1)
        with torch.no_grad():
            divergence = (ratio - 1 - log_ratio).mean(1)
        return loss, divergence

    def _step_down(self, minibatch, clip_range, clip_range_vf, going) -> None:
        """One gradient step of the members that are going on; `going` loses those that have moved too far."""
        losses, divergence = self.losses(minibatch, clip_range, clip_range_vf)
        if self.target_kl is not None:
            going &= (divergence <= KL_SLACK * self.target_kl).cpu().numpy()
        gradients = self.networks.gradients(losses)
        norms = gradients.norm(dim=1, keepdim=True)
        gradients *= (self.max_grad_norm / (norms + 1e-6)).clamp(max=1)  # as torch's clip_grad_norm_, a row each
        if self.target_kl is None:
            self.networks.flat.grad = gradients
        else:
            for row, gradient, moves in zip(self._parts, gradients, going, strict=True):
                row.grad = gradient if moves else None
        self.optimizer.step()

    def _check_weights(self) -> None:
        lost = torch.nonzero(~self.networks.flat.isfinite().all(dim=1)).flatten().tolist()
        if lost:
            raise ValueError(
                f"weights of members {lost} are no longer finite: look at their rewards and observations, or at the "
                "learning rate; train again without them"
            )

    def _seeded_policy(self, seed: int):
        """The policy that Stable-Baselines3 would begin with, and the generator it would go on with."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # the CPU's alone
            policy = self._new_policy()
            generator = torch.Generator()
            generator.set_state(torch.get_rng_state())
        return policy, generator

    def _new_policy(self) -> ActorCriticPolicy:
        return ActorCriticPolicy(self.observation_space, self.action_space, lambda _: 0.0, **self.policy_kwargs)

    def _start(self) -> None:
        seeds = [seed + env for seed in self.seeds for env in range(self.n_envs)]
        self._observations = self._per_member(self.envs.reset(seed=seeds)[0])
        self._starts = np.ones((len(self), self.n_envs), bool)
        self._returns, self._lengths = np.zeros((2, len(self), self.n_envs))

    def _per_member(self, array):
        return array.reshape(len(self), self.n_envs, *array.shape[1:])

    def _act(self, observations: np.ndarray) -> np.ndarray:
        """An action for each environment, drawn with the generator of its member."""
        with torch.no_grad():
            distribution = self.networks.distribution(torch.as_tensor(observations, device=self.device))
            if isinstance(distribution, Normal):
                noise = [torch.randn(distribution.loc.shape[1:], generator=generator) for generator in self._generators]
                drawn = distribution.loc + distribution.scale * torch.stack(noise).to(self.device)
            else:
                chances = distribution.probs.cpu()
                drawn = torch.stack(
                    [
                        torch.multinomial(own, 1, True, generator=generator).squeeze(1)
                        for own, generator in zip(chances, self._generators, strict=True)
                    ]
                )
        return drawn.cpu().numpy().reshape(len(self), self.n_envs, *self.action_space.shape)

    def _step(self, actions: np.ndarray):
        if isinstance(self.action_space, gym.spaces.Box):
            actions = np.clip(actions, self.action_space.low, self.action_space.high)
        seen, rewards, terminated, truncated, infos = self.envs.step(actions.reshape(-1, *self.action_space.shape))
        return *map(self._per_member, (seen, rewards, terminated, truncated)), infos

    def _count(self, rewards: np.ndarray, dones: np.ndarray) -> None:
        self.num_timesteps += self.n_envs
        self._returns += rewards
        self._lengths += 1
        for member, env in np.argwhere(dones):
            episodes = self.episodes[member]
            episodes.returns.append(float(self._returns[member, env]))
            episodes.lengths.append(int(self._lengths[member, env]))
            episodes.timesteps.append(self.num_timesteps)
        self._returns[dones] = self._lengths[dones] = 0

    def _rollout(self, observations, actions, rewards, starts, cut_short) -> Rollout:
        """Values, log-probabilities and advantages of what was seen, all at once."""
        with torch.no_grad():
            seen, done = (self._member_first(each) for each in (observations, actions))  # (K, N, ...)
            log_probs = joint(self.networks.distribution(seen).log_prob(done))
            values = self.networks.values(seen)
            last_values = self._values_of(self._observations)
            for (step, member, env, _), value in zip(cut_short, self._after(cut_short), strict=True):
                rewards[step, member, env] += self.gamma * value  # what would have come after the time limit
        stepwise = np.moveaxis(values.cpu().numpy().reshape(len(self), self.n_envs, -1), 2, 0)  # (T, K, E)
        advantages = advantages_of(rewards, stepwise, starts, last_values, self._starts, self.gamma, self.gae_lambda)
        return Rollout(seen, done, values, log_probs, *map(self._member_first, (advantages, advantages + stepwise)))

    def _after(self, cut_short) -> list[float]:
        """What each member expects after these steps, at which a time limit ended its episode; all in one pass."""
        seen = [[] for _ in self.seeds]
        for _, member, _, final in cut_short:
            seen[member].append(final)
        padded = np.zeros((len(self), max(map(len, seen)), *self.observation_space.shape), np.float32)
        for member, finals in enumerate(seen):
            for place, final in enumerate(finals):
                padded[member, place] = final
        expected = [iter(values) for values in self._values_of(padded)]
        return [next(expected[member]) for _, member, _, _ in cut_short]

    def _values_of(self, observations: np.ndarray) -> np.ndarray:
        return self.networks.values(torch.as_tensor(observations, device=self.device)).cpu().numpy()

    def _member_first(self, array: np.ndarray) -> torch.Tensor:
        """(T, K, E, ...) to (K, E × T, ...)."""
        array = np.moveaxis(array, 0, 2)
        return torch.as_tensor(array.reshape(len(self), -1, *array.shape[3:]), device=self.device)


def _schedule(value: float | Callable[[float], float]) -> Callable[[float], float]:
    return (lambda remaining: float(value(remaining))) if callable(value) else lambda _: float(value)


def _bar(total: int):
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="step", unit_scale=True)
