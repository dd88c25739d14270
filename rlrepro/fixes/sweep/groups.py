"""Which configurations of a sweep can be trained as one ensemble."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy

from .neighbours import neighbour

IGNORED = ("device", "verbose", "tensorboard_log")  # they don't change what is learned; an ensemble has its own
SHARED = ("n_envs", "n_steps", "batch_size", "n_epochs", "normalize_advantage", "policy_kwargs", "vec_normalize")
SMALLEST = 8  # members: a larger ensemble may be divided among processes, down to this size


def divide(configs: Sequence[Mapping], at_once: int) -> list[list[int]]:
    """The indices of each task's configs: those of an ensemble, or of one config that is trained alone. Ensembles are
    divided into up to `at_once` tasks per kind."""
    singles, groups, spaces = [], [], {}
    for index, config in enumerate(configs):
        kind = kind_of(config, spaces)
        if kind is None:
            singles.append([index])
            continue
        group = next((members for group_kind, members in groups if _equal(group_kind, kind)), None)
        if group is None:
            groups.append((kind, [index]))
        else:
            group.append(index)
    ensembles = []
    for _, members in groups:
        parts = max(1, min(at_once, len(members) // SMALLEST))
        ensembles += [members[part::parts] for part in range(parts)]
    return ensembles + singles


def halves(task: list) -> list[list]:
    """The two halves of a failed task; one of them may succeed without the other."""
    return [task[: len(task) // 2], task[len(task) // 2 :]]


def parameters() -> dict:
    """The parameters of an ensemble, with their defaults: shared by all members, or with a value for each."""
    names = (*SHARED, *neighbour("ensemble_ppo.hyperparameters").LIMITS)
    ensemble_parameters = signature(neighbour("ensemble_ppo").EnsemblePPO).parameters
    return {name: ensemble_parameters[name].default for name in names}


def makes_vector_env(env) -> bool:
    """Whether `env` is a function that takes a number of environments and makes a VectorEnv of them."""
    if isinstance(env, str):
        return False
    env_parameters = signature(env).parameters.values()
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in env_parameters
    )


def kind_of(config: Mapping, spaces: dict) -> dict | None:
    """What configs must have in common to be batched; None if this one can't be. Parameters that an ensemble does not
    have must have the defaults of Stable-Baselines3's PPO, unless they do not change what is learned."""
    defaults = {name: parameter.default for name, parameter in signature(PPO).parameters.items()}
    defaults |= {"policy": "MlpPolicy"}
    is_logged = config.get("tensorboard_log") is not None
    ignored = IGNORED if is_logged else (*IGNORED, "stats_window_size")  # it changes only what is logged
    extra_names = config.keys() - {"env", "seed", *ignored, *parameters()}
    if any(name not in defaults or not _equal(config[name], defaults[name]) for name in extra_names):
        return None
    if config.get("seed", 0) is None:  # PPO then draws without a seed, but members of an ensemble have one each
        return None
    env, shared = config["env"], {name: config.get(name, parameters()[name]) for name in SHARED}
    try:
        if env not in spaces:
            spaces[env] = _spaces(env)
        if makes_vector_env(env):
            shared["env"] = env
        checks = neighbour("ensemble_ppo.checks")
        checks.check_spaces(*spaces[env])
        with torch.random.fork_rng(devices=[]):  # the caller's generator stays as it is
            checks.check_policy(ActorCriticPolicy(*spaces[env], lambda _: 0.0, **(shared["policy_kwargs"] or {})))
    except Exception:  # a config that can't be batched, or is invalid, which its own run then reports
        return None
    return shared | {"spaces": spaces[env], "is_logged": is_logged}


def _equal(first, second) -> bool:
    """Whether they are known to be equal; a comparison of arrays has no single answer."""
    try:
        return bool(first == second)
    except ValueError:
        return False


def _spaces(env: str | Callable[[], gym.Env] | Callable[[int], gym.vector.VectorEnv]):
    if makes_vector_env(env):
        instance = env(1)
        spaces = instance.single_observation_space, instance.single_action_space
    else:
        instance = env() if callable(env) else gym.make(env)
        spaces = instance.observation_space, instance.action_space
    instance.close()
    return spaces
