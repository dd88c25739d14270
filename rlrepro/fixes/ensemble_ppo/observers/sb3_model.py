"""A member of an ensemble as a model of Stable-Baselines3."""

from functools import partial

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv


def model_of(ensemble, member: int) -> PPO:
    """PPO on the CPU with a member's hyperparameters, weights and Adam state, which is empty for a stopped member,
    since the shared optimizer has gone on without it. The model's environments can't be stepped."""
    shared = {name: getattr(ensemble, name) for name in ("n_steps", "batch_size", "n_epochs", "normalize_advantage")}
    options = {**shared, **ensemble.hyperparameters.of(member), "device": "cpu"}
    policy_kwargs = {name: value for name, value in ensemble.policy_kwargs.items() if name != "use_sde"}
    with torch.random.fork_rng(devices=[]):
        model = PPO("MlpPolicy", spaces_of(ensemble), policy_kwargs=policy_kwargs, **options)
    model.seed = ensemble.seeds[member]
    *_, model.num_timesteps = ensemble.stopped.get(member, [ensemble.num_timesteps])
    ensemble.networks.copy_to(member, model.policy)
    state, first = None if member in ensemble.stopped else ensemble.optimizer.state_of(member), 0
    for parameter in model.policy.parameters() if state else ():
        last = first + parameter.numel()
        parts = {name: part[first:last].view_as(parameter) if part.ndim else part for name, part in state.items()}
        model.policy.optimizer.state[parameter] = {name: part.cpu().clone() for name, part in parts.items()}
        first = last
    return model


def spaces_of(ensemble) -> VecEnv:
    """The environments of a member, which can't be stepped."""
    return DummyVecEnv([partial(_Spaces, ensemble)] * ensemble.n_envs)


class _Spaces(gym.Env):
    def __init__(self, ensemble):
        self.observation_space, self.action_space = ensemble.observation_space, ensemble.action_space
