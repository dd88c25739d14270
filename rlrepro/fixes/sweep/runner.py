"""sweep(configs, total_timesteps): PPO with many configurations, batched where that is possible."""

import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import joblib

from .configs import check_configs, sendable
from .groups import divide, halves
from .neighbours import neighbour
from .task import Reply, Trained, run_task

__all__ = ["Trained", "sweep"]


def sweep(
    configs: Iterable[Mapping[str, Any]],
    total_timesteps: int,
    *,
    callback: Callable[[dict], Any] | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    threads: int | None = None,
    device: str = "cpu",
    resume: str | Path | None = None,
    progress: bool = True,
) -> list:
    """Train Stable-Baselines3's PPO with each config. Configs with the same spaces, networks, and sizes of rollout and
    minibatch become ensembles (`EnsemblePPO`); each of the others is trained alone. Both run in processes of
    `train_many`. Returns one Outcome of `train_many` per config, in the same order; its value is a `Trained`, with
    `policy` and `episodes`, and its seconds are the run's share of the ensemble's.

    Args:
        configs: parameters of PPO by name, with `env`, and perhaps `policy`, `seed` and `n_envs`. `env` is a Gymnasium
            id, a function that makes an environment, or one that takes a number n and makes a VectorEnv of n
            environments, as `EnsemblePPO` expects it: this steps the environments of a whole ensemble in one call.
            `tensorboard_log` gets a folder config_0, config_1, ... for each config. An ensemble prints nothing, so
            `verbose` is only for configs that are trained alone. `vec_normalize` is as in EnsemblePPO; the `Trained`
            then has `vec_env(venv)`, which wraps an environment in which to use the policy
        total_timesteps: for each config, in whole rollouts as in Stable-Baselines3
        callback: `callback(config)` makes a callback of Stable-Baselines3, such as its EvalCallback, for the run of
            this config, or a list of them. If it returns False, this run ends early, but not the others. The config has
            its seed, and its own folder as `tensorboard_log`. The function is sent to the processes, and called again
            if an ensemble has failed and its runs are repeated
        seed: for configs that have none
        n_jobs, threads: processes at once, and threads of each, as in `train_many`
        device: for all configs; "auto" is CUDA if that is available, otherwise the CPU. A config may have `device` too,
            if it is "auto" or the same
        resume: a folder where the result of each config is written when its ensemble has ended; results in it are not
            computed again. They are identified by the config, with the code of functions in it, `seed`, `callback` and
            total_timesteps. What these functions call is not compared: after a change of an environment's class, use
            another folder. With None, results are kept until the end of the call; if it is interrupted, a message says
            where those so far are

    A member of an ensemble whose weights are no longer finite fails alone. If one raises an error or ends its process,
    the others are trained again without it. The Outcome of a failed run has its traceback in `error`. Warns if configs
    of an ensemble that raised an error succeed alone.

    Raises ValueError, before anything is trained, for a config without `env`, with an environment instead of a function
    that makes one, or with `vectorization`, which only EnsemblePPO has; a device that does not exist, an invalid
    number, or, with `resume`, a config that can't be identified; RuntimeError if another call is using that folder, and
    OSError if it can't be written to; ImportError if the folders `ensemble_ppo` and `train_many` are missing.
    """
    pool = neighbour("train_many")
    configs = list(configs)
    device = neighbour("ensemble_ppo.checks").check_device(device)
    check_configs(configs, device)
    at_once = joblib.cpu_count() if n_jobs is None else neighbour("train_many.threads").at_least_one("n_jobs", n_jobs)
    seeded = [{"seed": seed, **config} for config in configs]
    result_folder, keys = neighbour("train_many.result_folder"), _keys(seeded, total_timesteps, callback)
    if resume is not None and None in keys:
        raise ValueError(
            "with resume, a config and callback must consist of values and functions, found "
            f"{configs[keys.index(None)]!r}" + (f" and {callback!r}" if callback else "")
        )
    with result_folder.results_in(resume) as folder:
        replies = {index: reply for index, key in enumerate(keys) if key and (reply := folder.load(key)) is not None}
        missing = [index for index in range(len(configs)) if index not in replies]
        tasks = divide([seeded[index] for index in missing], 1 if device.type == "cuda" else at_once)
        tasks = [[missing[index] for index in task] for task in tasks]
        copies = [sendable(config, index) for index, config in enumerate(seeded)]
        common = folder.path, total_timesteps, device, callback
        while tasks:
            payloads = [
                cloudpickle.dumps(([copies[index] for index in task], [keys[index] for index in task], *common))
                for task in tasks
            ]
            outcomes = pool.train_many(
                run_task,
                [{"payload": payload} for payload in payloads],
                n_jobs=min(at_once, len(tasks)),
                threads=threads,
                resume=result_folder.NoResults(),  # each task keeps the results of its configs
                progress=progress and neighbour("train_many.failures").Report("sweep", _failures),
            )
            retries = []
            for task, outcome in zip(tasks, outcomes, strict=True):
                if outcome.value is None and len(task) > 1:  # its process was killed, perhaps by one of its members
                    retries += halves(task)
                else:
                    replies |= zip(task, outcome.value or [Reply(None, outcome.error, outcome.seconds)], strict=True)
            tasks = retries
    if errors := [error for index in missing if (error := replies[index].ensemble_error) is not None]:
        reason = neighbour("train_many.failures").reason(errors[-1])
        warnings.warn(f"{len(errors)} configs were trained alone, since an ensemble failed: {reason}", stacklevel=2)
    return [
        pool.Outcome(config, replies[index].value, replies[index].error, replies[index].seconds, seeded[index]["seed"])
        for index, config in enumerate(configs)
    ]


def _failures(outcome) -> list[tuple[Mapping, str]]:
    """The configs of a task that have failed, with their errors; none yet if the task will be divided."""
    replies = outcome.value or [Reply(None, outcome.error, outcome.seconds)]
    if all(reply.error is None for reply in replies):
        return []
    configs, *_ = pickle.loads(outcome.config["payload"])
    if len(replies) < len(configs):  # its process was killed
        return []
    return [(config, reply.error) for config, reply in zip(configs, replies, strict=True) if reply.error is not None]


def _keys(configs: list[Mapping], total_timesteps: int, callback: Callable | None = None) -> list[str | None]:
    """A key for the result of each config, numbered because configs may be equal. None for one that can't be
    identified."""
    counts, keys, shared = Counter(), [], (total_timesteps, *([] if callback is None else [callback]))
    for config in configs:
        try:
            key = neighbour("train_many.digest").identify((dict(config), *shared))
        except (pickle.PicklingError, AttributeError, TypeError, ValueError, RuntimeError):
            keys.append(None)
            continue
        counts[key] += 1
        keys.append(f"{key}-{counts[key]}")
    return keys
