"""sweep calls a callback of Stable-Baselines3 for each run, in an ensemble or alone, and a run that it stops ends."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback

from rlrepro.fixes import sweep
from rlrepro.fixes.sweep import task
from rlrepro.fixes.sweep.configs import sendable
from rlrepro.fixes.sweep.groups import divide

from .policies import distance

SIZES = {"n_steps": 100, "batch_size": 50, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
LAST_STEPS = [150, 600, 400]  # of the runs
ALONE = {"use_sde": True}


class StopAt(BaseCallback):
    def __init__(self, timesteps):
        super().__init__()
        self.timesteps = timesteps

    def _on_step(self):
        return self.num_timesteps < self.timesteps


def stop(config):
    return StopAt(LAST_STEPS[config["seed"]])


def stop_in_a_list(config):
    return [stop(config)]


def stop_later(config):
    return StopAt(2 * LAST_STEPS[config["seed"]])


def configs(**options):
    return [{"env": "Pendulum-v1", **SIZES, **options, "seed": seed} for seed in range(3)]


@pytest.mark.parametrize("options, callback", [({}, stop), (ALONE, stop), (ALONE, stop_in_a_list)])
def test_a_stopped_run_keeps_what_sb3_would_have_learned(options, callback):
    tasks = [[configs(**options)[index] for index in indices] for indices in divide(configs(**options), 1)]
    assert len(tasks) == (3 if options else 1)
    replies = [reply for task_configs in tasks for reply in task._train(task_configs, 500, "cpu", callback)]
    for seed, reply in enumerate(replies):
        model = PPO("MlpPolicy", "Pendulum-v1", seed=seed, device="cpu", **SIZES, **options)
        model.learn(500, callback=StopAt(LAST_STEPS[seed]))
        assert distance(reply.value.policy, model.policy) < 2e-6
        assert reply.value.episodes.lengths == [200] * (min(LAST_STEPS[seed], 500) // 200)


@pytest.mark.slow
def test_another_callback_has_other_results(tmp_path):
    for callback, files in ((stop, 3), (stop, 3), (stop_later, 6), (None, 9)):
        sweep(configs(), 100, callback=callback, resume=tmp_path, n_jobs=1, progress=False)
        assert len(list(tmp_path.glob("*.pickle"))) == files


@pytest.mark.parametrize("options", [{}, ALONE])
def test_a_callback_gets_the_config_with_the_id_of_its_environment(options, tmp_path, monkeypatch):
    sent = [sendable(config, index) for index, config in enumerate(configs(**options)[:2])]
    monkeypatch.setattr(gym, "registry", {})  # as in a process that has not run the script
    monkeypatch.setattr(gym.envs.registration, "registry", gym.registry)
    seen = []

    def evaluate(config):
        seen.append(config)
        folder = tmp_path / str(config["seed"])
        return EvalCallback(gym.make(config["env"]), eval_freq=100, n_eval_episodes=1, log_path=folder, verbose=0)

    assert [reply.error for reply in task._train(sent, 100, "cpu", evaluate)] == [None] * 2
    assert [config["env"] for config in seen] == ["Pendulum-v1"] * 2 and [config["seed"] for config in seen] == [0, 1]
    for seed in range(2):
        assert np.load(tmp_path / str(seed) / "evaluations.npz")["timesteps"].tolist() == [100]
