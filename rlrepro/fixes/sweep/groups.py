"""Which configurations of a sweep can be trained as one ensemble."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy

from .neighbours import neighbour

SHARED = ("n_envs", "n_steps", "batch_size", "n_epochs", "normalize_advantage", "policy_kwargs")
SMALLEST = 8  # members: a larger ensemble may be divided among processes, down to this size


def divide(configs: Sequence[Mapping], at_once: int, device="cpu") -> list[list[int]]:
    """Indices of the configs, task by task: those of an ensemble, or one that is trained alone. Ensembles are divided
    so that there are up to `at_once` of each kind."""
    alone, kinds, spaces = [], [], {}
    for index, config in enumerate(configs):
        kind = kind_of(config, spaces, device)
        if kind is None:
            alone.append([index])
            continue
        same = next((members for other, members in kinds if other == kind), None)
        if same is None:
            kinds.append((kind, [index]))
        else:
            same.append(index)
    ensembles = []
    for _, members in kinds:
        parts = max(1, min(at_once, len(members) // SMALLEST))
        ensembles += [members[part::parts] for part in range(parts)]
    return ensembles + alone


def halves(task: list) -> list[list]:
    """The two halves of a task that failed, one of which may do better alone."""
    return [task[: len(task) // 2], task[len(task) // 2 :]]


def parameters() -> dict:
    """The parameters that members of an ensemble share, or that each has its own value of, with their defaults."""
    names = (*SHARED, *neighbour("ensemble_ppo.hyperparameters").LIMITS)
    of_ensemble = signature(neighbour("ensemble_ppo").EnsemblePPO).parameters
    return {name: of_ensemble[name].default for name in names}


def makes_many(env) -> bool:
    """Whether this function is to be given the number of environments that its VectorEnv must have."""
    if isinstance(env, str):
        return False
    parameters = signature(env).parameters.values()
    return any(
        each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        for each in parameters
    )


def kind_of(config: Mapping, spaces: dict, device) -> dict | None:
    """What configs must have in common to be batched; None if this one can't be. Whatever an ensemble has no parameter
    for must be as in Stable-Baselines3's PPO by default."""
    defaults = {name: each.default for name, each in signature(PPO).parameters.items()}
    defaults |= {"policy": "MlpPolicy", "device": device}
    others = config.keys() - {"env", "seed", *parameters()}
    if any(name not in defaults or config[name] != defaults[name] for name in others):
        return None
    env, shared = config["env"], {name: config.get(name, parameters()[name]) for name in SHARED}
    try:
        if env not in spaces:
            spaces[env] = _spaces(env)
        if makes_many(env):
            shared["env"] = env
        checks = neighbour("ensemble_ppo.checks")
        checks.check_spaces(*spaces[env])
        with torch.random.fork_rng(devices=[]):  # the caller's generator stays as it is
            checks.check_policy(ActorCriticPolicy(*spaces[env], lambda _: 0.0, **(shared["policy_kwargs"] or {})))
    except Exception:  # what can't be batched, and what can't be made at all, which its own run then tells
        return None
    return shared | {"spaces": spaces[env]}


def _spaces(env: str | Callable[[], gym.Env] | Callable[[int], gym.vector.VectorEnv]):
    if makes_many(env):
        made = env(1)
        spaces = made.single_observation_space, made.single_action_space
    else:
        made = env() if callable(env) else gym.make(env)
        spaces = made.observation_space, made.action_space
    made.close()
    return spaces
