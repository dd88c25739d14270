"""EnsemblePPO: K independent PPO learners as one batched network in one process."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticPolicy

from .checks import check_device, check_minibatches, check_policy, check_seeds, warn_of_twins
from .collector import Collector
from .envs import make_envs
from .hyperparameters import Hyperparameters, Schedule
from .member_adam import MemberAdam
from .rollout import Rollout
from .stacked_policies import StackedPolicies, joint

KL_SLACK = 1.5  # Stable-Baselines3 stops an update once the divergence exceeds this times target_kl


class EnsemblePPO:
    """Train K independent PPO learners at once; member k learns what Stable-Baselines3's
    `PPO("MlpPolicy", env, seed=seeds[k])` would learn alone with member k's hyperparameters, up to rounding.

    Args:
        env: a Gymnasium id, a function that makes an environment, or one of these for each member
        seeds: one for each member
        n_envs: environments per member
        vectorization: "sync" steps the environments in this process, "async" each in its own process (needs loky), and
            "auto" measures which is faster

    The other parameters are those of Stable-Baselines3's PPO, which documents them. learning_rate, clip_range,
    clip_range_vf, ent_coef, vf_coef, gamma, gae_lambda, max_grad_norm and target_kl are one value for all members, or a
    sequence with one for each; the first three may be functions of the remaining progress (1 to 0). All members share
    the others. The networks are `MlpPolicy`, with `policy_kwargs`. An environment must draw from its own `np_random`,
    not from NumPy's global generator.

    Raises ValueError for what can't be batched: observations other than vectors, actions other than Discrete or a
    vector of floats, spaces that differ between members, optimizers other than Adam and AdamW, feature extractors, and
    gSDE; for values out of range; and in `learn` if a member's weights are no longer finite. Warns of members that
    would learn the same.

    `episodes[k]` has the finished episodes of member k as three lists: `returns`, `lengths` (environment steps), and
    `timesteps`, the member's timesteps when each ended. `policy(k)` copies its policy, for use with Stable-Baselines3.

    Tested with stable-baselines3 2.3.2, 2.4.1, 2.5.0, 2.6.0, 2.7.1, 2.8.0, 2.9.2.
    """

    def __init__(
        self,
        env: str | Callable[[], gym.Env] | Sequence[str | Callable[[], gym.Env]],
        *,
        seeds: Sequence[int],
        n_envs: int = 1,
        learning_rate: Schedule | Sequence[Schedule] = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float | Sequence[float] = 0.99,
        gae_lambda: float | Sequence[float] = 0.95,
        clip_range: Schedule | Sequence[Schedule] = 0.2,
        clip_range_vf: Schedule | Sequence[Schedule] = None,
        normalize_advantage: bool = True,
        ent_coef: float | Sequence[float] = 0.0,
        vf_coef: float | Sequence[float] = 0.5,
        max_grad_norm: float | Sequence[float] = 0.5,
        use_sde: bool = False,
        target_kl: float | Sequence[float | None] | None = None,
        policy_kwargs: dict | None = None,
        vectorization: str = "auto",
        device: str | torch.device = "cpu",
    ):
        self.seeds = check_seeds(seeds)
        sizes = {"n_envs": n_envs, "n_steps": n_steps, "batch_size": batch_size, "n_epochs": n_epochs}
        check_minibatches(**sizes, normalize_advantage=normalize_advantage)
        self.n_envs, self.n_steps, self.batch_size, self.n_epochs = sizes.values()
        self.normalize_advantage = normalize_advantage
        self.hyperparameters = Hyperparameters(
            len(self.seeds),
            {
                "learning_rate": learning_rate,
                "clip_range": clip_range,
                "clip_range_vf": clip_range_vf,
                "ent_coef": ent_coef,
                "vf_coef": vf_coef,
                "gamma": gamma,
                "gae_lambda": gae_lambda,
                "max_grad_norm": max_grad_norm,
                "target_kl": target_kl,
            },
        )
        warn_of_twins(self.seeds, self.hyperparameters, env)
        self.device, self.policy_kwargs = check_device(device), {"use_sde": use_sde, **(policy_kwargs or {})}
        self.envs = make_envs(env, len(self), n_envs, vectorization)
        self.observation_space, self.action_space = self.envs.single_observation_space, self.envs.single_action_space
        policies, generators = zip(*map(self._seeded_policy, self.seeds), strict=True)
        check_policy(policies[0])
        self.networks = StackedPolicies(policies, self.device)
        self.optimizer = MemberAdam(
            self.networks.flat,
            policies[0].optimizer,
            same_rate=not self.hyperparameters.differ("learning_rate"),
            may_rest=self.hyperparameters.is_given("target_kl"),
        )
        self._orders = [np.random.RandomState(seed) for seed in self.seeds]
        discounts = {name: self.hyperparameters.at(name) for name in ("gamma", "gae_lambda")}
        self._collector = Collector(self.envs, self.networks, generators, self.seeds, **discounts)
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
        now = self._now(remaining)
        active = np.ones(len(self), bool)  # members whose policy has not moved too far
        orders = np.empty(rollout.values.shape, np.int64)  # (K, N)
        for _ in range(self.n_epochs):
            for member in np.flatnonzero(active):
                orders[member] = self._orders[member].permutation(orders.shape[1])
            for minibatch in rollout.minibatches(orders, self.batch_size):
                self._gradient_step(minibatch, now, active)
                if not active.any():
                    return

    def losses(self, batch: Rollout, now: dict[str, torch.Tensor]):
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
        clipped = ratio.clamp(now["lowest_ratio"], now["highest_ratio"])
        policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean(1)
        if "clip_range_vf" in now:
            limit = now["clip_range_vf"]
            values = batch.values + (values - batch.values).clamp(-limit, limit)
        value_loss = (batch.returns - values).square().mean(1)
        loss = policy_loss + now["vf_coef"] * value_loss
        if "ent_coef" in now:
            loss = loss - now["ent_coef"] * joint(distribution.entropy()).mean(1)
        with torch.no_grad():
            divergence = (ratio - 1 - log_ratio).mean(1)
        return loss, divergence

    def _now(self, remaining: float) -> dict:
        """The members' hyperparameters when this share of the progress remains: (K, 1) where they meet minibatches,
        otherwise (K,). What no member uses is left out."""
        at = {name: self.hyperparameters.at(name, remaining) for name in self.hyperparameters.values}
        clip_range = at["clip_range"][:, None]
        now = {
            "lowest_ratio": 1 - clip_range,
            "highest_ratio": 1 + clip_range,
            "vf_coef": at["vf_coef"],
            "max_grad_norm": at["max_grad_norm"][:, None],
        }
        if self.hyperparameters.is_given("clip_range_vf"):
            now["clip_range_vf"] = at["clip_range_vf"][:, None]
        if at["ent_coef"].any():
            now["ent_coef"] = at["ent_coef"]
        now = {name: torch.as_tensor(value, dtype=torch.float32).to(self.device) for name, value in now.items()}
        return now | {"learning_rate": at["learning_rate"], "target_kl": at["target_kl"]}

    def _gradient_step(self, minibatch, now, active) -> None:
        """One gradient step of the active members; those whose policy has moved too far are removed from `active`."""
        losses, divergence = self.losses(minibatch, now)
        stops = self.hyperparameters.is_given("target_kl")
        if stops:
            active &= ~(divergence.cpu().numpy() > KL_SLACK * now["target_kl"])
        gradients = self.networks.gradients(losses)
        norms = gradients.norm(dim=1, keepdim=True)
        gradients *= (now["max_grad_norm"] / (norms + 1e-6)).clamp(max=1)  # as torch's clip_grad_norm_, per member
        self.optimizer.step(gradients, now["learning_rate"], active if stops else None)

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


def _bar(total: int):
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="step", unit_scale=True)
