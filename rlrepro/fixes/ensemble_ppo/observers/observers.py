"""Calls Stable-Baselines3's callbacks for each member of an ensemble, and writes curves."""

import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.utils import explained_variance

from .loss_curves import LossCurves
from .member import Member


class Observers:
    """Watches one call of `learn`. `callback(k)` makes the callback of member k, or a list of them.

    A member stops if its callback returns False: it keeps its current weights and VecNormalize statistics, and later
    episodes are dropped. It also stops if an update leaves it with weights that are not finite, and then keeps those
    from before the update. It stays stopped, also in later calls: `ensemble.stopped` has for each stopped member its
    weights (P,), the lengths of its lists of episodes, its statistics and its timesteps. `learn` stops once all have.

    Raises RuntimeError if all have stopped before.
    """

    def __init__(self, ensemble, callback: Callable | None, tensorboard_log, total: int, bar: bool):
        self._ensemble, self._is_logged, self._start = ensemble, tensorboard_log is not None, time.monotonic()
        self._stopped, self._first, self._bar = ensemble.stopped, ensemble.num_timesteps, None
        self._check_stopped()
        self._members, self._callbacks = {}, {}  # by index, without those that stopped before this call
        self._steps = []  # of this rollout, the rewards and starts of episodes (K, E)
        self.curves = None  # of the losses of the next update
        for index in range(len(ensemble)) if callback or self._is_logged else ():
            if index in self._stopped:
                continue
            self._members[index] = Member(ensemble, index, _logger(tensorboard_log, index), total)
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
        for member in self._members.values():
            member.logger.close()
        self._restore_weights()
        for index, (_, counts, statistics, _) in self._stopped.items():
            for name, values in vars(self._ensemble.episodes[index]).items():
                del values[counts[name] :]
            for current, saved in zip(self._statistics(index), statistics, strict=True):
                current[...] = saved
        if self._bar is not None:
            self._bar.close()

    def collect(self):
        """A rollout of the ensemble; None if all members have stopped."""
        if len(self._stopped) == len(self._ensemble):
            return None
        self._before = self._ensemble.networks.flat.detach().clone()
        for callback in self._active(self._callbacks).values():
            callback.on_rollout_start()
        self._steps = []
        rollout = self._ensemble.collect(self._step if self._callbacks else None)
        if rollout is not None:
            for index in self._callbacks:
                self._members[index].keep_rollout(rollout, self._steps)
            for callback in self._active(self._callbacks).values():
                callback.on_rollout_end()
            if self._is_logged:
                self._log_rollout(rollout)
                rows = self._ensemble.n_steps * self._ensemble.n_envs
                self.curves = LossCurves(-(-rows // self._ensemble.batch_size))
        return rollout

    def end_update(self, remaining: float) -> None:
        """Undo the update of stopped members, and log the others'. It was made when this share of progress remained."""
        is_finite = self._ensemble.networks.flat.isfinite().all(dim=1).tolist()
        if diverged := [k for k in range(len(is_finite)) if not is_finite[k] and k not in self._stopped]:
            for member in diverged:
                self._stop(member, self._before[member])
            self._ensemble.diverged += diverged
            message = "an update made weights non-finite; policy(k) has those from before that update. Check rewards"
            warnings.warn(f"members {diverged} were stopped: {message} and learning_rate", stacklevel=3)
        self._restore_weights()
        for member in self._members.values():
            member.forget_policy()
        if self._is_logged:
            self._log_update(remaining)
        if self._bar is not None:
            self._bar.update(self._ensemble.n_steps * self._ensemble.n_envs * len(self._ensemble))

    def _initialized(self, callback: BaseCallback | list, member: Member) -> BaseCallback:
        callback = CallbackList(callback) if isinstance(callback, list) else callback
        if not isinstance(callback, BaseCallback) or callback in self._callbacks.values():
            raise ValueError(f"callback(k) must make a BaseCallback of Stable-Baselines3 or a list, found {callback!r}")
        callback.init_callback(member)
        callback.on_training_start({"self": member, "total_timesteps": member._total_timesteps}, {})
        return callback

    def _check_stopped(self) -> None:
        advice = "policy(k) returns what member k has learned; to train longer, make a new ensemble"
        if len(self._stopped) == len(self._ensemble):
            raise RuntimeError(f"all members have stopped, so there is nothing left to train: {advice}")
        if self._stopped:
            warnings.warn(f"members {sorted(self._stopped)} have stopped and train no further: {advice}", stacklevel=4)

    def _active(self, by_index: dict) -> dict:
        return {index: value for index, value in by_index.items() if index not in self._stopped}

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
        for index, callback in self._active(self._callbacks).items():
            member_arrays = {name: array[index] for name, array in arrays.items()}
            callback.update_locals(member_arrays | {"infos": member_infos[index]})
            if not callback.on_step():
                self._stop(index, self._ensemble.networks.flat[index].detach())
        return bool(self._active(self._callbacks))

    def _stop(self, member: int, weights: torch.Tensor) -> None:
        counts = {name: len(values) for name, values in vars(self._ensemble.episodes[member]).items()}
        statistics = [array.copy() for array in self._statistics(member)]
        self._stopped[member] = weights.clone(), counts, statistics, self._ensemble.num_timesteps

    def _statistics(self, member: int) -> list[np.ndarray]:
        return self._ensemble.normalize.statistics(member) if self._ensemble.normalize else []

    def _restore_weights(self) -> None:
        for index, (weights, *_) in self._stopped.items():
            self._ensemble.networks.flat.data[index] = weights

    def _log_rollout(self, rollout) -> None:
        steps, values, returns = self._ensemble.num_timesteps, rollout.values.cpu(), rollout.returns.cpu()
        for index, member in self._active(self._members).items():
            if episodes := member.ep_info_buffer:
                member.logger.record("rollout/ep_rew_mean", np.mean([episode["r"] for episode in episodes]))
                member.logger.record("rollout/ep_len_mean", np.mean([episode["l"] for episode in episodes]))
            member.logger.record("time/fps", int((steps - self._first) / (time.monotonic() - self._start)))
            if successes := member.ep_success_buffer:
                member.logger.record("rollout/success_rate", np.mean(successes))
            member.logger.dump(steps)  # with the records of the previous update, as in Stable-Baselines3
            explained = explained_variance(values[index].numpy(), returns[index].numpy())
            member.logger.record("train/explained_variance", float(explained))

    def _log_update(self, remaining: float) -> None:
        hyperparameters, weights = self._ensemble.hyperparameters, self._ensemble.networks.weights
        losses = list(self.curves.of_members())
        settings = {
            name: hyperparameters.at(name, remaining) for name in ("learning_rate", "clip_range", "clip_range_vf")
        }
        deviations = weights["log_std"].exp().mean(1).tolist() if "log_std" in weights else None
        for index, member in self._active(self._members).items():
            records = losses[index] | {
                name: float(values[index])
                for name, values in settings.items()
                if hyperparameters.values[name][index] is not None
            }
            if deviations:
                records["std"] = deviations[index]
            for name, value in records.items():
                member.logger.record(f"train/{name}", value)


def _logger(tensorboard_log, index: int) -> Logger:
    if tensorboard_log is None:
        return Logger(None, [])
    is_list = isinstance(tensorboard_log, list | tuple)
    folder = tensorboard_log[index] if is_list else f"{tensorboard_log}/member_{index}"
    return Logger(None, [TensorBoardOutputFormat(str(folder))])
