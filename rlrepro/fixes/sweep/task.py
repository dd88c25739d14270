"""One task of a sweep in its process: an ensemble, or one run of Stable-Baselines3."""

import operator
import pickle
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from .configs import RegisteredEnv
from .groups import SHARED, halves, kind_of, makes_vector_env, parameters
from .neighbours import neighbour

DIVERGED = "ValueError: weights were no longer finite after an update: check rewards, observations and learning_rate"


@dataclass
class Trained:
    """The result of one run: Stable-Baselines3's policy, and the finished episodes with their `returns`, `lengths` and
    `timesteps`, as in `EnsemblePPO.episodes[k]`; with `vec_normalize`, also the contents of the file that its
    VecNormalize's `save` would write."""

    policy: Any
    episodes: Any
    normalize: bytes | None = None

    def vec_env(self, venv):
        """Stable-Baselines3's VecNormalize around `venv`, with this run's statistics; they stay as they are until you
        set `training`. Raises ValueError for a run without `vec_normalize`."""
        if self.normalize is None:
            raise ValueError("vec_env(venv) needs a config with vec_normalize; this one does not normalize")
        wrapped = pickle.loads(self.normalize)
        wrapped.set_venv(venv)
        return wrapped


@dataclass(frozen=True)
class Reply:
    """How the run of one config ended: its value or its traceback, and its share of the seconds. `ensemble_error` is
    the traceback of the ensemble in whose place it was trained alone."""

    value: Trained | None
    error: str | None
    seconds: float
    ensemble_error: str | None = None


def run_task(payload: bytes) -> list[Reply]:
    """Train the configs of a pickled (configs, keys, folder, total_timesteps, device, callback); results are
    written to the folder under their keys, unless these are None, as soon as the task has finished."""
    configs, keys, folder, *options = pickle.loads(payload)
    replies = _train(configs, *options)
    results = neighbour("train_many.result_folder").ResultFolder(folder)  # the sweep holds its lock
    for key, reply in zip(keys, replies, strict=True):
        if key is not None and reply.error is None:
            results.keep(key, reply)
    return replies


def _train(configs: list[Mapping], total_timesteps: int, device, callback=None, ensemble_error=None) -> list[Reply]:
    start = time.monotonic()
    try:
        is_ensemble = len(configs) > 1 or makes_vector_env(configs[0]["env"])
        trained = (_train_ensemble if is_ensemble else _train_alone)(configs, total_timesteps, device, callback)
    except (Exception, SystemExit):
        if len(configs) == 1:
            return [Reply(None, traceback.format_exc(), time.monotonic() - start)]
        error = traceback.format_exc()  # of one of them; the others still have to be trained
        return [reply for part in halves(configs) for reply in _train(part, total_timesteps, device, callback, error)]
    seconds = (time.monotonic() - start) / len(configs)
    ensemble_error = None if is_ensemble else ensemble_error
    return [
        Reply(None, DIVERGED, seconds) if result is None else Reply(result, None, seconds, ensemble_error)
        for result in trained
    ]


def _train_ensemble(configs, total_timesteps: int, device, callback: Callable | None) -> list[Trained | None]:
    """The result of each config; None for a member that has diverged."""
    options = {
        name: configs[0].get(name, default) if name in SHARED else [config.get(name, default) for config in configs]
        for name, default in parameters().items()
    }
    envs, seeds = ([config[name] for config in configs] for name in ("env", "seed"))
    if makes_vector_env(envs[0]):
        if kind_of(configs[0], {}) is None:
            raise ValueError(
                "env takes a number of environments, so it must make a VectorEnv, and the config must be one that can "
                f"be batched (MlpPolicy, vectors as observations, no use_sde, ...); found {dict(configs[0])!r}"
            )
        envs = envs[0](len(configs) * options["n_envs"])
    ensemble_class = neighbour("ensemble_ppo").EnsemblePPO
    ensemble = ensemble_class(envs, seeds=seeds, vectorization="sync", device=device, **options)
    try:
        is_logged = configs[0].get("tensorboard_log") is not None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"members .* were stopped")  # the Outcome says so
            ensemble.learn(
                total_timesteps,
                callback=callback and (lambda member: callback(_readable(configs[member]))),
                tensorboard_log=list(map(_log_folder, configs)) if is_logged else None,
            )
        return [
            None
            if member in ensemble.diverged
            else Trained(ensemble.policy(member), ensemble.episodes[member], _pickled(normalize))
            for member, normalize in enumerate(_normalizers(ensemble))
        ]
    finally:
        ensemble.close()


def _train_alone(configs, total_timesteps: int, device, callback: Callable | None) -> list[Trained]:
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import CallbackList, ConvertCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    config = {**configs[0], "device": device}
    if config["seed"] is not None:
        config["seed"] = operator.index(config["seed"])  # environments refuse NumPy's integers
    policy, n_envs = config.pop("policy", "MlpPolicy"), config.pop("n_envs", 1)
    normalize = config.pop("vec_normalize", False)
    envs = make_vec_env(config.pop("env"), n_envs)
    if normalize is not False:
        envs = normalize = VecNormalize(envs, **({} if normalize is True else normalize))
    episodes = neighbour("ensemble_ppo.collector").Episodes()
    try:
        callbacks = [ConvertCallback(_recorder(episodes))]
        if callback is not None:
            own = callback(_readable(configs[0]))
            callbacks.append(CallbackList(own) if isinstance(own, list) else own)
        model = PPO(policy, envs, **config).learn(total_timesteps, callback=callbacks)
        return [Trained(model.policy.to("cpu"), episodes, _pickled(normalize))]
    finally:
        envs.close()


def _normalizers(ensemble) -> list:
    """The VecNormalize of each member; False if the ensemble does not normalize."""
    if ensemble.normalize is None:
        return [False] * len(ensemble)
    spaces = neighbour("ensemble_ppo.observers.sb3_model").spaces_of(ensemble)
    return [ensemble.vec_env(member, spaces) for member in range(len(ensemble))]


def _pickled(normalize) -> bytes | None:
    """This VecNormalize as its `save` writes it; None without one."""
    if normalize is False:
        return None
    normalize.training = False
    return pickle.dumps(normalize)


def _readable(config: Mapping) -> dict:
    """The config with the id of its environment, which `gym.make` then makes, also in this process."""
    env = config["env"]
    if isinstance(env, RegisteredEnv):
        gym.registry.setdefault(env.spec.id, env.spec)
        env = env.spec.id
    return {**config, "env": env}


def _log_folder(config) -> str:
    """Where Stable-Baselines3 would write the curves of this config."""
    from stable_baselines3.common.utils import get_latest_run_id

    return f"{config['tensorboard_log']}/PPO_{get_latest_run_id(config['tensorboard_log'], 'PPO') + 1}"


def _recorder(episodes):
    """A callback that adds each finished episode."""

    def record(scope, _) -> bool:
        for info in scope["infos"]:
            if "episode" in info:
                episodes.returns.append(info["episode"]["r"])
                episodes.lengths.append(info["episode"]["l"])
                episodes.timesteps.append(scope["self"].num_timesteps)
                if info.get("is_success") is not None:
                    episodes.successes.append(info["is_success"])
        return True

    return record
