"""sweep: configs that can be batched become ensembles, others run alone, and each outcome is Stable-Baselines3's."""

import os
import pickle
import re
import shutil
import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from rlrepro.fixes import sweep
from rlrepro.fixes.sweep import groups, runner, task
from rlrepro.fixes.sweep.neighbours import neighbour
from rlrepro.fixes.train_many.result_folder import ResultFolder

from .policies import distance, weights
from .vector_pendulum import VectorPendulum

SIZES = {"env": "Pendulum-v1", "n_steps": 64, "n_epochs": 2}
MIXED = [
    {**SIZES, "learning_rate": 1e-3, "seed": 3},
    {**SIZES, "env": "CartPole-v1", "clip_range": 0.1},
    {**SIZES, "use_sde": True},
    {**SIZES, "env": "CartPole-v1", "ent_coef": 0.05, "seed": 4},
    {**SIZES, "n_envs": 2},
    {**SIZES, "gamma": 0.9, "clip_range_vf": 0.2, "policy": "MlpPolicy"},
    {**SIZES, "batch_size": 32},
]


def test_configs_are_divided_by_the_settings_they_must_share():
    assert groups.divide(MIXED, at_once=1) == [[0, 5], [1, 3], [4], [6], [2]]


def test_ensembles_are_divided_among_processes_but_stay_large():
    configs = [{**SIZES, "learning_rate": 1e-4 * index} for index in range(20)]
    assert [len(members) for members in groups.divide(configs, at_once=8)] == [10, 10]
    assert len(groups.divide(configs[:15], at_once=8)) == 1


def test_environments_with_the_same_spaces_are_batched():
    configs = [{**SIZES, "env": make} for make in ("Pendulum-v1", short_pendulum)]
    assert groups.divide(configs, at_once=1) == [[0, 1]]


def short_pendulum():
    return gym.make("Pendulum-v1", max_episode_steps=10)


@pytest.mark.slow
def test_each_outcome_equals_sb3s(tmp_path):
    outcomes = sweep(MIXED, 128, n_jobs=2, progress=False, resume=tmp_path)
    for config, outcome in zip(MIXED, outcomes, strict=True):
        assert outcome.config is config and outcome.error is None
        options = {"policy": "MlpPolicy", "seed": 0, "device": "cpu", **config}
        envs = make_vec_env(options.pop("env"), options.pop("n_envs", 1))
        reference = PPO(env=envs, **options).learn(128)
        assert distance(outcome.value.policy, reference.policy) < 2e-6
        episodes = outcome.value.episodes
        assert episodes.lengths == [episode["l"] for episode in reference.ep_info_buffer]
        assert episodes.returns == pytest.approx([episode["r"] for episode in reference.ep_info_buffer], rel=1e-4)
        assert len(episodes.timesteps) == len(episodes.lengths)


@pytest.mark.slow
def test_results_in_the_folder_are_not_computed_again(tmp_path, monkeypatch):
    (first,) = sweep(MIXED[:1], 64, resume=tmp_path, progress=False)
    trained = []
    monkeypatch.setattr(runner, "divide", lambda configs, *_: trained.extend(configs) or [[0], [1]])
    resumed = sweep([MIXED[1], MIXED[0], MIXED[3]], 64, resume=tmp_path, progress=False, n_jobs=1)
    assert [config["env"] for config in trained] == ["CartPole-v1", "CartPole-v1"]
    assert torch.equal(weights(resumed[1].value.policy), weights(first.value.policy))
    assert [outcome.config for outcome in resumed] == [MIXED[1], MIXED[0], MIXED[3]]
    longer = sweep(MIXED[:1] * 2, 128, resume=tmp_path, progress=False, n_jobs=1)
    assert not torch.equal(weights(longer[0].value.policy), weights(first.value.policy))


@pytest.mark.slow
def test_a_file_that_can_not_be_read_is_computed_again(tmp_path):
    (first,) = sweep(MIXED[:1], 64, resume=tmp_path, progress=False)
    (file,) = tmp_path.glob("*.pickle")
    file.write_bytes(b"half of")
    with pytest.warns(UserWarning, match="can't be read"):
        (recomputed,) = sweep(MIXED[:1], 64, resume=tmp_path, progress=False)
    assert torch.equal(weights(recomputed.value.policy), weights(first.value.policy))


@pytest.mark.slow
def test_an_ensemble_steps_its_vectorized_environment():
    configs = [{**SIZES, "env": VectorPendulum, "n_envs": 2, "seed": seed} for seed in range(3)]
    assert groups.divide([*configs, {**SIZES, "n_envs": 2}], at_once=1) == [[0, 1, 2], [3]]
    outcomes = sweep(configs, 128, n_jobs=1, progress=False)
    assert [outcome.error for outcome in outcomes] == [None] * 3
    reference = PPO("MlpPolicy", make_vec_env("Pendulum-v1", 2), seed=1, device="cpu", n_steps=64, n_epochs=2).learn(
        128
    )
    assert distance(outcomes[1].value.policy, reference.policy) < 2e-6


@pytest.mark.slow
def test_a_vectorized_environment_can_not_be_trained_alone():
    (outcome,) = sweep([{**SIZES, "env": VectorPendulum, "use_sde": True}], 64, n_jobs=1, progress=False)
    assert "must be one that can be batched" in outcome.error


class Broken(gym.Wrapper):
    def step(self, action):
        raise FloatingPointError("joint 3 is not a number")


def broken():
    return Broken(gym.make("Pendulum-v1"))


def test_a_member_that_fails_does_not_end_the_others():
    configs = [{**SIZES, "env": broken if index == 2 else "Pendulum-v1", "seed": index} for index in range(5)]
    assert groups.divide(configs, at_once=1) == [[0, 1, 2, 3, 4]]
    replies = task._train(configs, 64, "cpu")
    assert [reply.error is None for reply in replies] == [True, True, False, True, True]
    assert "joint 3 is not a number" in replies[2].error
    for seed in (1, 4):
        reference = PPO("MlpPolicy", "Pendulum-v1", seed=seed, device="cpu", n_steps=64, n_epochs=2).learn(64)
        assert np.allclose(weights(replies[seed].value.policy), weights(reference.policy), atol=2e-6)


class NaNRewards(gym.Wrapper):
    def step(self, action):
        observation, _, *rest = self.env.step(action)
        return observation, float("nan"), *rest


def test_a_member_that_diverges_is_an_error_and_nothing_is_trained_again(monkeypatch, recwarn):
    halved = []
    monkeypatch.setattr(task, "halves", lambda configs: halved.append(configs) or groups.halves(configs))
    envs = ["Pendulum-v1", lambda: NaNRewards(gym.make("Pendulum-v1")), "Pendulum-v1"]
    configs = [{**SIZES, "env": env, "seed": index} for index, env in enumerate(envs)]
    replies = task._train(configs, 128, "cpu")
    assert [reply.error for reply in replies] == [None, task.DIVERGED, None]
    assert not halved and not [warning for warning in recwarn if "stopped" in str(warning.message)]
    reference = PPO("MlpPolicy", "Pendulum-v1", seed=2, device="cpu", n_steps=64, n_epochs=2).learn(128)
    assert np.allclose(weights(replies[2].value.policy), weights(reference.policy), atol=2e-6)


def exiting():
    raise SystemExit("bad env")


def test_a_member_that_exits_does_not_end_the_others():
    replies = task._train([{**SIZES, "env": env, "seed": 0} for env in ("Pendulum-v1", exiting)], 64, "cpu")
    assert replies[0].error is None and "bad env" in replies[1].error


def test_schedules_of_other_values_or_code_have_other_results():
    def linear(first):
        return lambda remaining: first * remaining

    schedules = [linear(1e-3), linear(1e-3), linear(1e-4), lambda remaining: 1e-3]
    keys = [runner._keys([{**SIZES, "learning_rate": schedule}], 64)[0] for schedule in schedules]
    assert keys[0] == keys[1] and len(set(keys)) == 3


@pytest.mark.slow
def test_results_of_an_interrupted_sweep_are_where_its_message_says(monkeypatch):
    def interrupted(run_task, payloads, **options):
        run_task(**payloads[0])
        raise KeyboardInterrupt

    sizes = {**SIZES, "n_steps": 32}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as raised:
        patch.setattr(neighbour("train_many"), "train_many", interrupted)
        sweep([sizes, {**sizes, "n_envs": 2}], 32, progress=False)
    (folder,) = re.findall("resume='(.*)'", raised.value.__notes__[0])
    (file,) = Path(folder).glob("*.pickle")
    mtime = file.stat().st_mtime_ns
    outcomes = sweep([sizes, {**sizes, "n_envs": 2}], 32, resume=folder, n_jobs=1, progress=False)
    assert [outcome.error for outcome in outcomes] == [None, None] and file.stat().st_mtime_ns == mtime
    shutil.rmtree(folder)


class Ending(gym.Wrapper):
    def step(self, action):
        os._exit(3)


def ending():
    return Ending(gym.make("Pendulum-v1"))


@pytest.mark.slow
def test_a_member_that_kills_its_process_does_not_end_the_others():
    configs = [{**SIZES, "seed": seed} for seed in range(3)]
    outcomes = sweep([*configs, {**SIZES, "env": ending}], 64, n_jobs=1, progress=False)
    assert [outcome.error is None for outcome in outcomes] == [True, True, True, False]


def test_parameters_that_do_not_change_what_is_learned_do_not_prevent_a_batch():
    batched = [SIZES, {**SIZES, "use_sde": False}, {**SIZES, "verbose": 1, "device": "auto", "stats_window_size": 9}]
    separate = [{**SIZES, "use_sde": True}, {**SIZES, "no_parameter": None}]
    logged = [{**SIZES, "tensorboard_log": folder} for folder in ("logs", "other")]
    assert groups.divide([*batched, *separate, *logged], at_once=1) == [[0, 1, 2], [5, 6], [3], [4]]


def test_the_callers_generator_stays_as_it_is():
    before = torch.get_rng_state()
    assert groups.divide([SIZES, SIZES], at_once=1) == [[0, 1]]
    assert torch.equal(torch.get_rng_state(), before)


def test_trained_policies_are_returned_although_the_disk_is_full(tmp_path):
    payload = pickle.dumps(([{**SIZES, "seed": 0}], ["key"], tmp_path / "no", 64, "cpu"))
    with pytest.warns(UserWarning, match="could not be written"):
        (reply,) = task.run_task(payload)
    assert reply.error is None and reply.value.policy is not None


@pytest.mark.slow
def test_a_config_may_come_twice_and_one_sweep_at_a_time_uses_a_folder(tmp_path):
    configs = [{**SIZES, "use_sde": True}] * 2
    outcomes = sweep(configs, 64, resume=tmp_path, n_jobs=2, progress=False)
    assert [outcome.error for outcome in outcomes] == [None, None] and len(list(tmp_path.glob("*.pickle"))) == 2
    with ResultFolder(tmp_path), pytest.raises(RuntimeError, match="another call is using"):
        sweep(configs, 64, resume=tmp_path, progress=False)


@pytest.mark.parametrize(
    "config, options, message",
    [
        ({"learning_rate": 1e-3}, {}, "config 0 must map PPO's parameters and env"),
        ({**SIZES, "learning_rate": threading.Lock()}, {"resume": "folder"}, "values and functions"),
        ({**SIZES, "policy_kwargs": torch.ones(3)}, {"resume": "folder"}, "values and functions"),
        (SIZES, {"n_jobs": 0}, "n_jobs must be"),
        ({**SIZES, "env": gym.make("Pendulum-v1")}, {}, r"env of config 0 .* pass lambda: gym.make\(...\)"),
        ({**SIZES, "vectorization": "sync"}, {}, "config 0 .* found vectorization, which only EnsemblePPO has"),
        ({**SIZES, "device": "meta"}, {}, r"sweep's device, cpu, but config 0 has 'meta': .* sweep\(..., device=...\)"),
    ],
)
def test_a_config_that_can_not_be_used_is_named(config, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        sweep([config], 64, **options)
