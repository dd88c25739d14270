"""EnsemblePPO: K independent PPO learners as one batched network in one process."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticPolicy

from .checks import check_minibatches, check_policy
from .collector import Collector
from .envs import make_envs
from .rollout import Rollout
from .stacked_policies import StackedPolicies, joint

KL_SLACK = 1.5  # Stable-Baselines3 stops an update once the divergence exceeds this times target_kl


class EnsemblePPO:
    """Train K independent PPO learners at once; member k learns what Stable-Baselines3's
    `PPO("MlpPolicy", env, seed=seeds[k])` would learn alone with these hyperparameters, up to rounding.

    Args:
        env: a Gymnasium id, a function that makes an environment, or one of these for each member
        seeds: one for each member
        n_envs: environments per member
        vectorization: "sync" steps the environments in this process, "async" each in its own process (needs loky), and
            "auto" measures which is faster

    The other parameters are those of Stable-Baselines3's PPO, which documents them; all members share them. The
    networks are its `MlpPolicy`, with `policy_kwargs`; learning_rate and clip_range may be functions of the remaining
    progress (1 to 0). An environment must draw from its own `np_random`, not from NumPy's global generator.

    Raises ValueError for what can't be batched: observations other than vectors, actions other than Discrete or a
    vector of floats, spaces that differ between members, optimizers other than Adam and AdamW, feature extractors, and
    gSDE; and in `learn` if a member's weights are no longer finite.

    `episodes[k]` lists the finished episodes of member k, and `policy(k)` gives its policy for use with
    Stable-Baselines3.

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
        self.normalize_advantage = normalize_advantage
        self.ent_coef, self.vf_coef, self.max_grad_norm, self.target_kl = ent_coef, vf_coef, max_grad_norm, target_kl
        self.learning_rate, self.clip_range = _schedule(learning_rate), _schedule(clip_range)
        self.clip_range_vf = None if clip_range_vf is None else _schedule(clip_range_vf)
        self.device, self.policy_kwargs = torch.device(device), policy_kwargs or {}
        self.envs = make_envs(env, len(self), n_envs, vectorization)
        self.observation_space, self.action_space = self.envs.single_observation_space, self.envs.single_action_space
        policies, generators = zip(*map(self._seeded_policy, self.seeds), strict=True)
        check_policy(policies[0])
        self.networks = StackedPolicies(policies, self.device)
        fused = self.device.type == "cuda" or tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)
        # all weights as one parameter, or one per member if members may stop on their own
        self._parameters = [self.networks.flat] if target_kl is None else list(self.networks.flat.unbind())
        self.optimizer = torch.optim.Adam(
            self._parameters, **{**policies[0].optimizer.defaults, "fused": fused, "foreach": None}
        )
        self._orders = [np.random.RandomState(seed) for seed in self.seeds]
        self._collector = Collector(
            self.envs, self.networks, generators, self.seeds, gamma=gamma, gae_lambda=gae_lambda
        )
        self.episodes = self._collector.episodes

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def num_timesteps(self) -> int:
        """Timesteps of each member so far."""
        return self._collector.num_timesteps

    def learn(self, total_timesteps: int, *, progress: bool = False) -> "EnsemblePPO":
        """Train each member for at least `total_timesteps`, in whole rollouts as in Stable-Baselines3. Further calls
        continue, as with its `reset_num_timesteps=False`."""
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
        raise TypeError("an EnsemblePPO can't be copied or sent to another process; send policy(k) of its members")

    def close(self) -> None:
        """End the environments and their processes."""
        self.envs.close()

    def collect(self) -> Rollout:
        """Let each member act for `n_steps` in each of its environments."""
        return self._collector.collect(self.n_steps)

    def update(self, rollout: Rollout, remaining: float = 1.0) -> None:
        """PPO's update of each member, with its own transitions in its own order; `remaining` is the progress that
        schedules are given."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(remaining)
        clips = self.clip_range(remaining), self.clip_range_vf(remaining) if self.clip_range_vf else None
        active = np.ones(len(self), bool)  # members whose policy has not moved too far
        orders = np.empty(rollout.values.shape, np.int64)  # (K, N)
        for _ in range(self.n_epochs):
            for member in np.flatnonzero(active):
                orders[member] = self._orders[member].permutation(orders.shape[1])
            for minibatch in rollout.minibatches(orders, self.batch_size):
                self._gradient_step(minibatch, *clips, active)
                if not active.any():
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

    def _gradient_step(self, minibatch, clip_range, clip_range_vf, active) -> None:
        """One gradient step of the active members; those whose policy has moved too far are removed from `active`."""
        losses, divergence = self.losses(minibatch, clip_range, clip_range_vf)
        if self.target_kl is not None:
            active &= (divergence <= KL_SLACK * self.target_kl).cpu().numpy()
        gradients = self.networks.gradients(losses)
        norms = gradients.norm(dim=1, keepdim=True)
        gradients *= (self.max_grad_norm / (norms + 1e-6)).clamp(max=1)  # as torch's clip_grad_norm_, per member
        if self.target_kl is None:
            self.networks.flat.grad = gradients
        else:
            for weights, gradient, is_active in zip(self._parameters, gradients, active, strict=True):
                weights.grad = gradient if is_active else None
        self.optimizer.step()

    def _check_weights(self) -> None:
        diverged = torch.nonzero(~self.networks.flat.isfinite().all(dim=1)).flatten().tolist()
        if diverged:
            raise ValueError(
                f"weights of members {diverged} are no longer finite: check their rewards and observations and the "
                "learning rate, or train again without these members"
            )

    def _seeded_policy(self, seed: int):
        """The policy that Stable-Baselines3 would start with, and the generator from which it would then draw."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # the CPU's alone
            policy = self._new_policy()
            generator = torch.Generator()
            generator.set_state(torch.get_rng_state())
        return policy, generator

    def _new_policy(self) -> ActorCriticPolicy:
        return ActorCriticPolicy(self.observation_space, self.action_space, lambda _: 0.0, **self.policy_kwargs)


def _schedule(value: float | Callable[[float], float]) -> Callable[[float], float]:
    return (lambda remaining: float(value(remaining))) if callable(value) else lambda _: float(value)


def _bar(total: int):
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="step", unit_scale=True)
