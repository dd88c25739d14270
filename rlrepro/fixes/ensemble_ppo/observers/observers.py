"""Calls Stable-Baselines3's callbacks for each member of an ensemble, and writes curves."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.utils import explained_variance

from .loss_curves import LossCurves
from .member import Member


class Observers:
    """Watches one call of `learn`. `callback(k)` makes the callback of member k, or a list of them.

    A member stops if its callback returns False: it keeps its current weights and VecNormalize statistics, and later
    episodes are dropped. `learn` stops once all members have stopped.
    """

    def __init__(self, ensemble, callback: Callable | None, tensorboard_log: str | Path | None, total: int, bar: bool):
        self._ensemble, self._is_logged, self._start = ensemble, tensorboard_log is not None, time.monotonic()
        self._members, self._callbacks, self._first = [], {}, ensemble.num_timesteps
        self._stopped, self._bar = {}, None  # by member: weights, number of episodes and statistics
        self._steps = []  # of this rollout, the rewards and starts of episodes (K, E)
        self.curves = None  # of the losses of the next update
        for index in range(len(ensemble) if callback or self._is_logged else 0):
            formats = [TensorBoardOutputFormat(f"{tensorboard_log}/member_{index}")] if self._is_logged else []
            self._members.append(Member(ensemble, index, Logger(None, formats), total))
            if callback:
                self._callbacks[index] = self._initialized(callback(index), self._members[index])
        if bar:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total * len(ensemble), unit="step", unit_scale=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for callback in self._callbacks.values():
            callback.on_training_end()
        for member in self._members:
            member.logger.close()
        for index, (_, count, statistics) in self._stopped.items():
            for values in vars(self._ensemble.episodes[index]).values():
                del values[count:]
            for current, saved in zip(self._statistics(index), statistics, strict=True):
                current[...] = saved
        if self._bar is not None:
            self._bar.close()

    def collect(self):
        """A rollout of the ensemble; None if all members have stopped."""
        for callback in self._active_callbacks().values():
            callback.on_rollout_start()
        self._steps = []
        rollout = self._ensemble.collect(self._step if self._callbacks else None)
        if rollout is not None:
            for index in self._callbacks:
                self._members[index].keep_rollout(rollout, self._steps)
            for callback in self._active_callbacks().values():
                callback.on_rollout_end()
            if self._is_logged:
                self._log_rollout(rollout)
                rows = self._ensemble.n_steps * self._ensemble.n_envs
                self.curves = LossCurves(-(-rows // self._ensemble.batch_size))
        return rollout

    def end_update(self, remaining: float) -> None:
        """Log the update, which was made when this share of the progress remained."""
        flat = self._ensemble.networks.flat
        for index, (weights, *_) in self._stopped.items():
            flat.data[index] = weights
        for member in self._members:
            member.forget_policy()
        for member, parts in zip(self._members, self.curves.of_members() if self._is_logged else (), strict=False):
            for name, value in parts.items():
                member.logger.record(f"train/{name}", value)
        for name in ("learning_rate", "clip_range") if self._is_logged else ():
            for member, value in zip(self._members, self._ensemble.hyperparameters.at(name, remaining), strict=True):
                member.logger.record(f"train/{name}", float(value))
        if self._is_logged and "log_std" in (weights := self._ensemble.networks.weights):
            for member, std in zip(self._members, weights["log_std"].exp().mean(1).tolist(), strict=True):
                member.logger.record("train/std", std)
        if self._bar is not None:
            self._bar.update(self._ensemble.n_steps * self._ensemble.n_envs * len(self._ensemble))

    def _initialized(self, callback: BaseCallback | list, member: Member) -> BaseCallback:
        callback = CallbackList(callback) if isinstance(callback, list) else callback
        if not isinstance(callback, BaseCallback):
            raise ValueError(f"callback(k) must return Stable-Baselines3's BaseCallback or a list, found {callback!r}")
        callback.init_callback(member)
        callback.on_training_start({"self": member, "total_timesteps": member._total_timesteps}, {})
        return callback

    def _active_callbacks(self):
        return {index: callback for index, callback in self._callbacks.items() if index not in self._stopped}

    def _step(self, arrays: dict[str, np.ndarray], finished: list, infos: np.ndarray | None) -> bool:
        """Call each member's callback after a step; arrays (K, E, ...), finished: (member, env, return, length), infos
        (K × E). Returns whether any member continues."""
        self._steps.append({name: arrays[name] for name in ("rewards", "episode_starts")})
        members, envs = len(self._ensemble), self._ensemble.n_envs
        member_infos = [
            [{} if infos is None else {**infos[k * envs + env][0]} for env in range(envs)] for k in range(members)
        ]
        for index, env, episode_return, length in finished:
            member_infos[index][env]["episode"] = {"r": episode_return, "l": length}  # as a Monitor reports it
        for index, callback in self._active_callbacks().items():
            callback.update_locals(
                {name: array[index] for name, array in arrays.items()} | {"infos": member_infos[index]}
            )
            if not callback.on_step():
                count = len(self._ensemble.episodes[index].returns)
                statistics = [array.copy() for array in self._statistics(index)]
                self._stopped[index] = self._ensemble.networks.flat[index].detach().clone(), count, statistics
        return len(self._stopped) < len(self._callbacks)

    def _statistics(self, member: int) -> list[np.ndarray]:
        return self._ensemble.normalize.statistics(member) if self._ensemble.normalize else []

    def _log_rollout(self, rollout) -> None:
        steps = self._ensemble.num_timesteps
        for member, values, returns in zip(self._members, rollout.values.cpu(), rollout.returns.cpu(), strict=True):
            if episodes := member.ep_info_buffer:
                member.logger.record("rollout/ep_rew_mean", np.mean([episode["r"] for episode in episodes]))
                member.logger.record("rollout/ep_len_mean", np.mean([episode["l"] for episode in episodes]))
            member.logger.record("time/fps", int((steps - self._first) / (time.monotonic() - self._start)))
            member.logger.dump(steps)  # with the records of the previous update, as in Stable-Baselines3
            explained = explained_variance(values.numpy(), returns.numpy())
            member.logger.record("train/explained_variance", float(explained))
