"""EnsemblePPO: K independent PPO learners as one batched network in one process."""

from collections.abc import Callable, Sequence
from pathlib import Path

import cloudpickle
import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from .checks import check_device, check_minibatches, check_policy, check_seeds, warn_of_twins
from .collector import Collector
from .envs import prepare_envs
from .hyperparameters import LIMITS, Hyperparameters, Schedule
from .losses import write_gradients
from .member_adam import MemberAdam
from .normalize import MemberNormalize
from .observers import LossCurves, Observers, model_of
from .rollout import Rollout
from .stacked_policies import StackedPolicies

KL_SLACK = 1.5  # Stable-Baselines3 stops an update once the divergence exceeds this times target_kl


class EnsemblePPO:
    """Train K independent PPO learners at once; member k learns what Stable-Baselines3's
    `PPO("MlpPolicy", env, seed=seeds[k])` would learn alone with member k's hyperparameters, up to rounding.

    Args:
        env: a Gymnasium id, a function that makes an environment, or one of these for each member; or a Gymnasium
            VectorEnv, which steps all environments in one call. It must have `n_envs` environments per member, those
            of a member next to each other, reset each in the step that ends its episode, and accept a list of seeds
        seeds: one per member
        n_envs: environments per member
        vec_normalize: True, or arguments of Stable-Baselines3's VecNormalize, normalizes each member's observations and
            rewards as VecNormalize would for the member alone; its `gamma` may be one value for each member.
            `vec_env(k, venv)` wraps an environment in which to use the policy
        vectorization: "sync" steps the environments in this process, "async" each in its own process (needs loky), and
            "auto" measures which is faster
        device: for the networks; "auto" is CUDA if that is available, otherwise the CPU

    The other parameters are those of Stable-Baselines3's PPO, which documents them. learning_rate, clip_range,
    clip_range_vf, ent_coef, vf_coef, gamma, gae_lambda, max_grad_norm and target_kl are one value for all members, or a
    sequence with one for each; the first three may be functions of the remaining progress (1 to 0). All members share
    the others. The networks are `MlpPolicy`, with `policy_kwargs`. An environment must draw from its own `np_random`,
    not from NumPy's global generator.

    Raises ValueError for what can't be batched: observations other than vectors, actions other than Discrete or a
    vector of floats, spaces that differ between members, optimizers other than Adam and AdamW, feature extractors other
    than FlattenExtractor, and gSDE; and for values out of range. Warns about members that learn the same policy.

    `episodes[k]` has the finished episodes of member k as lists: `returns`, `lengths` (environment steps), `timesteps`
    of the member when each ended, and `successes`, from infos with `is_success` (not of a VectorEnv).

    Tested with stable-baselines3 2.3.2, 2.4.1, 2.5.0, 2.6.0, 2.7.1, 2.8.0, 2.9.2.
    """

    def __init__(
        self,
        env: str | Callable[[], gym.Env] | Sequence[str | Callable[[], gym.Env]] | VectorEnv,
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
        vec_normalize: bool | dict = False,
        vectorization: str = "auto",
        device: str | torch.device = "cpu",
    ):
        self._options = {name: value for name, value in locals().items() if name not in ("self", "env")}
        self.seeds, self.normalize_advantage = check_seeds(seeds), normalize_advantage
        sizes = {"n_envs": n_envs, "n_steps": n_steps, "batch_size": batch_size, "n_epochs": n_epochs}
        self.n_envs, self.n_steps, self.batch_size, self.n_epochs = check_minibatches(normalize_advantage, sizes)
        self.hyperparameters = Hyperparameters(len(self.seeds), {name: self._options[name] for name in LIMITS})
        warn_of_twins(self.seeds, self.hyperparameters, env)
        self.device, self.policy_kwargs = check_device(device), {"use_sde": use_sde, **(policy_kwargs or {})}
        spaces, start_envs = prepare_envs(env, len(self), self.n_envs, vectorization)
        self.observation_space, self.action_space = spaces
        policies, generators = zip(*map(self._seeded_policy, self.seeds), strict=True)
        check_policy(policies[0])
        self.networks = StackedPolicies(policies, self.device)
        self.optimizer = MemberAdam(
            self.networks.flat,
            policies[0].optimizer,
            same_rate=not self.hyperparameters.differ("learning_rate"),
            may_skip=self.hyperparameters.is_set("target_kl"),
        )
        self._orders = [np.random.RandomState(seed) for seed in self.seeds]
        discounts = {name: self.hyperparameters.at(name) for name in ("gamma", "gae_lambda")}
        shape, options = self.observation_space.shape, {} if vec_normalize is True else vec_normalize
        normalize = None if vec_normalize is False else MemberNormalize(len(self), self.n_envs, shape, **options)
        self.envs = start_envs()  # only now, so that an error above leaves no processes
        self._collector = Collector(self.envs, self.networks, generators, self.seeds, normalize=normalize, **discounts)
        self.episodes, self.stopped = self._collector.episodes, {}  # by stopped member: what Observers restores
        self.diverged = []  # those of them whose weights were no longer finite

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def num_timesteps(self) -> int:
        """Timesteps of each member so far."""
        return self._collector.num_timesteps

    @property
    def normalize(self) -> MemberNormalize | None:
        """The members' VecNormalize; None without `vec_normalize`."""
        return self._collector.normalize

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: Callable[[int], BaseCallback | list[BaseCallback]] | None = None,
        tensorboard_log: str | Path | Sequence[str | Path] | None = None,
        progress: bool = False,
    ) -> "EnsemblePPO":
        """Train each member for at least `total_timesteps`, in whole rollouts as in Stable-Baselines3. Further calls
        continue, as with its `reset_num_timesteps=False`.

        `callback(k)` makes a callback of Stable-Baselines3 for member k, such as its EvalCallback. It is called at each
        step; if it returns False, that member stops and the others go on. Its weights, episodes and statistics then
        stay as they are, also after `load` and, unlike in Stable-Baselines3, in further calls. `tensorboard_log` is a
        folder for curves like Stable-Baselines3's, in member_0, member_1, ..., or a list with a folder for each member.

        A member whose weights are no longer finite after an update is stopped with a warning, and listed in `diverged`;
        its policy is the one from before the update.

        Raises RuntimeError if processes of environments have died, or all members have stopped in earlier calls. After
        an error or an interrupt in a step of the environments, the next call starts them again, from their seeds."""
        end = self.num_timesteps + total_timesteps
        with Observers(self, callback, tensorboard_log, total_timesteps, progress) as observers:
            while self.num_timesteps < end and (rollout := observers.collect()) is not None:
                remaining = 1 - self.num_timesteps / end
                self.update(rollout, remaining, observers.curves)
                observers.end_update(remaining)
        return self

    def policy(self, member: int) -> ActorCriticPolicy:
        """Stable-Baselines3's policy with this member's weights; `.predict` and `.save` are its own."""
        with torch.random.fork_rng(devices=[]):
            policy = self._new_policy()
        self.networks.copy_to(member, policy)
        return policy

    def model(self, member: int) -> PPO:
        """Stable-Baselines3's PPO as this member is now, with its Adam state, which is empty if the member has stopped.
        `PPO.load(path, env)` loads what its `save(path)` writes, to train it further alone."""
        return model_of(self, member)

    def vec_env(self, member: int, venv: VecEnv) -> VecNormalize:
        """Stable-Baselines3's VecNormalize around `venv`, with this member's statistics as they are now."""
        if self.normalize is None:
            raise ValueError("vec_env(k, venv) needs an ensemble with vec_normalize; this one does not normalize")
        return self.normalize.of(member, venv)

    def save(self, path: str | Path) -> None:
        """Write everything to a file, except the environments, which you pass to `load` again."""
        saved = {"options": cloudpickle.dumps(self._options), "collected": self._collector.state()}
        learned = {"weights": self.networks.flat.cpu(), "adam": self.optimizer.adam.state_dict()}
        torch.save({**saved, **learned, "stopped": self.stopped, "diverged": self.diverged}, path)

    @classmethod
    def load(cls, path: str | Path, env, **changes) -> "EnsemblePPO":
        """The ensemble of a file, with new environments; `learn` continues as Stable-Baselines3's `PPO.load(path, env)`
        does with `reset_num_timesteps=False`: environments and random generators start again from the seeds. `changes`
        replace saved arguments, such as `device`. Like any pickle, a file can run code: load only what you trust."""
        saved = torch.load(path, map_location="cpu", weights_only=False)
        ensemble = cls(env, **{**cloudpickle.loads(saved["options"]), **changes})
        shapes, problem = [tuple(flat.shape) for flat in (saved["weights"], ensemble.networks.flat)], None
        adam = ensemble.optimizer.adam.state_dict()  # with the new learning rates
        if shapes[0] != shapes[1]:
            problem = "expected (members, weights) {} as in the file, found {}; pass equal arguments".format(*shapes)
        elif len(adam["param_groups"][0]["params"]) != len(saved["adam"]["param_groups"][0]["params"]):
            problem = "target_kl can be changed from one number to another, but not from or to None"
        if problem:
            if ensemble.envs is not env:
                ensemble.close()
            raise ValueError(problem)
        ensemble.networks.flat.data.copy_(saved["weights"])
        ensemble.optimizer.adam.load_state_dict({**adam, "state": saved["adam"]["state"]})
        ensemble._collector.restore(saved["collected"])
        ensemble.episodes = ensemble._collector.episodes
        ensemble.stopped, ensemble.diverged = saved["stopped"], saved["diverged"]
        return ensemble

    def __reduce__(self):
        raise TypeError("an EnsemblePPO can't be copied or pickled; use save(path), or policy(k) of its members")

    def close(self) -> None:
        """End the environments and their processes."""
        self.envs.close()

    def collect(self, after_step: Callable | None = None) -> Rollout | None:
        """A rollout of `n_steps` in each environment, or None; `after_step` is as in `Collector.collect`."""
        return self._collector.collect(self.n_steps, after_step)

    def update(self, rollout: Rollout, remaining: float = 1.0, curves: LossCurves | None = None) -> None:
        """PPO's update of each member, with its own transitions in its own order; `remaining` is the progress that
        schedules are called with, and `curves` keeps the losses."""
        settings = self.hyperparameters.for_update(remaining, self.device)
        active = np.ones(len(self), bool)  # members whose policy has not moved too far
        orders = np.empty(rollout.values.shape, np.int64)  # (K, N)
        for _ in range(self.n_epochs):
            for member in np.flatnonzero(active):
                orders[member] = self._orders[member].permutation(orders.shape[1])
            for minibatch in rollout.minibatches(orders, self.batch_size):
                self._gradient_step(minibatch, settings, active, curves)
                if not active.any():
                    return

    def _gradient_step(self, minibatch, settings, active, curves) -> None:
        """One gradient step of the active members; those whose policy has moved too far are removed from `active`."""
        divergence = write_gradients(self.networks, minibatch, settings, self.normalize_advantage, curves, active)
        has_target_kl = self.hyperparameters.is_set("target_kl")
        if has_target_kl:
            active &= ~(divergence.cpu().numpy() > KL_SLACK * settings["target_kl"])
        gradients = self.networks.flat_gradient
        norms = gradients.norm(dim=1, keepdim=True) + 1e-6  # as torch's clip_grad_norm_, per member
        gradients *= (settings["max_grad_norm"] / norms).clamp(max=1)
        self.optimizer.step(gradients, settings["learning_rate"], active if has_target_kl else None)

    def _seeded_policy(self, seed: int):
        """The policy that Stable-Baselines3 would start with, and the generator from which it would then draw."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # only the CPU's
            policy, generator = self._new_policy(), torch.Generator()
            generator.set_state(torch.get_rng_state())
        return policy, generator

    def _new_policy(self) -> ActorCriticPolicy:
        return ActorCriticPolicy(self.observation_space, self.action_space, lambda _: 0.0, **self.policy_kwargs)
