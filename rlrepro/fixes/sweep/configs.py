"""The configs of a sweep: what is refused before anything is trained, and what other processes get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

ENSEMBLE_ONLY = ("vectorization",)  # parameters of EnsemblePPO that a config can't have


@dataclass(frozen=True)
class RegisteredEnv:
    """Makes the environment of a specification, also in a process that has not run the script's gym.register. It is
    printed as the id."""

    spec: EnvSpec

    def __call__(self) -> gym.Env:
        return gym.make(self.spec)

    def __repr__(self) -> str:
        return repr(self.spec.id)


def check_configs(configs: Sequence, device) -> None:
    """Raises ValueError for a config without `env` or with an environment in its place, with a parameter that only
    EnsemblePPO has, or with another `device` than the sweep's."""
    for index, config in enumerate(configs):
        if not isinstance(config, Mapping) or "env" not in config:
            raise ValueError(f"config {index} must map PPO's parameters and env to values; found {config!r}")
        if not callable(config["env"]) and not isinstance(config["env"], str):
            raise ValueError(
                f"env of config {index} must be an id or a function that makes an environment, found "
                f"{config['env']!r}: pass lambda: gym.make(...)"
            )
        for name in config.keys() & set(ENSEMBLE_ONLY):
            raise ValueError(
                f"config {index} must have parameters of Stable-Baselines3's PPO, found {name}, which only EnsemblePPO "
                "has: call EnsemblePPO itself with these configs, or remove it"
            )
        if str(config.get("device", "auto")) not in ("auto", str(device)):
            raise ValueError(
                f"all configs train on the sweep's device, {device}, but config {index} has {config['device']!r}: "
                "remove it, and call sweep(..., device=...)"
            )


def sendable(config: Mapping, index: int) -> dict:
    """The config for another process: with a RegisteredEnv for a registered id, and a separate folder for curves."""
    config = dict(config)
    if isinstance(config["env"], str) and config["env"] in gym.registry:
        config["env"] = RegisteredEnv(gym.registry[config["env"]])
    if config.get("tensorboard_log") is not None:
        config["tensorboard_log"] = str(Path(config["tensorboard_log"], f"config_{index}"))
    return config
