"""sweep batches what it can, says so if it can't, and takes what Stable-Baselines3's users pass to PPO."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from rlrepro.fixes import sweep
from rlrepro.fixes.sweep import task
from rlrepro.fixes.sweep.configs import sendable
from rlrepro.fixes.sweep.neighbours import neighbour
from rlrepro.fixes.train_many.digest import identify

from .policies import distance
from .registered_env import REGISTERED_ENV

SIZES = {"env": "Pendulum-v1", "n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
CONFIGS = [{**SIZES, "seed": seed} for seed in range(3)]
SECONDS = 120  # for a script


@pytest.fixture
def in_this_process(monkeypatch):
    """Run the tasks of a sweep here, where they can be changed; returns the number of configs of each."""
    sizes = []
    train = task._train

    def train_here(run_task, payloads, **options):
        replies = [run_task(**payload) for payload in payloads]
        return [neighbour("train_many").Outcome({}, reply, None, 0.0, 0) for reply in replies]

    monkeypatch.setattr(neighbour("train_many"), "train_many", train_here)
    monkeypatch.setattr(task, "_train", lambda configs, *rest: sizes.append(len(configs)) or train(configs, *rest))
    return sizes


@pytest.mark.parametrize("options", [{}, {"verbose": 1, "device": "auto"}, {"stats_window_size": 10}])
def test_an_automatic_device_trains_one_ensemble(in_this_process, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcomes = sweep([{**config, **options} for config in CONFIGS], 32, device="auto", progress=False)
    assert [outcome.error for outcome in outcomes] == [None] * 3 and in_this_process == [3]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_missing_device_is_refused_before_anything_is_trained(in_this_process, tmp_path):
    with pytest.raises(ValueError, match="one of the 0 CUDA devices; found cuda"):
        sweep(CONFIGS, 32, device="cuda", resume=tmp_path / "results")
    assert not in_this_process and not (tmp_path / "results").exists()


def test_configs_that_are_trained_alone_since_their_ensemble_failed_are_warned_about(in_this_process, monkeypatch):
    def fail(*_):
        raise ArithmeticError("ensembles are broken")

    with monkeypatch.context() as patch, pytest.warns(UserWarning) as raised:
        patch.setattr(task, "_train_ensemble", fail)
        outcomes = sweep(CONFIGS, 32, progress=False)
    assert [outcome.error for outcome in outcomes] == [None] * 3
    expected = "3 configs were trained alone, since an ensemble failed: ArithmeticError: ensembles are broken"
    assert [str(warning.message) for warning in raised] == [expected]


@pytest.mark.parametrize("options", [{}, {"use_sde": True}])
def test_a_seed_may_be_numpys(in_this_process, options):
    (outcome,) = sweep([{**SIZES, **options, "seed": np.int64(7)}], 32, progress=False)
    assert outcome.error is None
    config = {name: value for name, value in SIZES.items() if name != "env"}
    reference = PPO("MlpPolicy", "Pendulum-v1", seed=7, device="cpu", **config, **options).learn(32)
    assert distance(outcome.value.policy, reference.policy) < 2e-6


def test_configs_may_have_numpys_numbers_as_a_random_search_draws_them(in_this_process):
    config = {**SIZES, **dict.fromkeys(("n_steps", "batch_size"), np.int64(32)), "n_epochs": np.int64(1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcomes = sweep([{**config, "gamma": np.float32(gamma)} for gamma in (0.9, 0.99)], 32, progress=False)
    assert [outcome.error for outcome in outcomes] == [None] * 2 and in_this_process == [2]


def test_configs_whose_seed_is_none_are_trained_alone_without_a_warning(in_this_process):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcomes = sweep([{**SIZES, "seed": None}] * 2, 32, progress=False)
    assert [outcome.error for outcome in outcomes] == [None] * 2 and in_this_process == [1, 1]


def test_the_curves_of_each_config_have_their_own_folder(in_this_process, tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    configs = [*CONFIGS, {**SIZES, "use_sde": True}]
    sweep([{**config, "tensorboard_log": tmp_path} for config in configs], 64, progress=False)
    folders = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("events.*")}
    assert folders == {f"config_{index}/PPO_1" for index in range(4)} and in_this_process == [3, 1]


def test_a_result_is_identified_by_the_config_as_it_was_passed(in_this_process, tmp_path):
    config = {**SIZES, "seed": 1, "verbose": 0}
    sweep([config], 32, resume=tmp_path, progress=False)
    assert [path.stem for path in tmp_path.glob("*.pickle")] == [f"{identify((config, 32))}-1"]


def test_a_registered_environment_is_printed_as_its_id():
    assert repr(sendable(SIZES, 0)["env"]) == "'Pendulum-v1'"


REGISTERED = (
    "from rlrepro.fixes import sweep"
    + REGISTERED_ENV
    + """    config = {"env": "Mine-v0", "n_steps": 64, "n_epochs": 1}
    configs = [config, {**config, "gamma": 0.9}, {**config, "n_envs": 2}]
    for outcome in sweep(configs, 64, n_jobs=1, progress=False):
        print(outcome.error, outcome.config["env"], outcome.value and outcome.value.episodes.lengths)
"""
)


@pytest.mark.slow
def test_an_environment_that_a_script_registers_is_made_in_other_processes(tmp_path):
    (tmp_path / "script.py").write_text(REGISTERED)
    command = [sys.executable, tmp_path / "script.py"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    expected = "None Mine-v0 [20, 20, 20]\n" * 2 + "None Mine-v0 [20, 20, 20, 20, 20, 20]\n"
    assert completed.stdout == expected, completed.stdout + completed.stderr


def test_an_array_among_the_arguments_of_a_policy_is_trained_alone(in_this_process):
    """Whether two of them are equal has no single answer."""
    configs = [{**SIZES, "seed": seed, "policy_kwargs": {"net_arch": np.array([8, 8])}} for seed in range(2)]
    outcomes = sweep(configs, 32, progress=False)
    assert [outcome.error for outcome in outcomes] == [None] * 2 and in_this_process == [1, 1]
