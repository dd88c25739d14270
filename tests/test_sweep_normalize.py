"""A config of sweep may have vec_normalize, in an ensemble or alone: the run is normalized as Stable-Baselines3's."""

import pickle

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from rlrepro.fixes.sweep import groups, task

from .policies import distance

SIZES = {"n_steps": 64, "n_epochs": 2, "n_envs": 2, "policy_kwargs": {"net_arch": [8]}}


def configs(vec_normalize, **options):
    return [{"env": "Pendulum-v1", **SIZES, "vec_normalize": vec_normalize, **options, "seed": n} for n in range(2)]


@pytest.mark.parametrize("vec_normalize", [True, {"norm_reward": False, "clip_obs": 1.0}])
@pytest.mark.parametrize("options, tasks", [({}, [[0, 1]]), ({"use_sde": True}, [[0], [1]])])
def test_a_normalized_run_equals_sb3s(vec_normalize, options, tasks, tmp_path):
    normalized = configs(vec_normalize, **options)
    assert groups.divide(normalized, at_once=1) == tasks
    replies = [reply for members in tasks for reply in task._train([normalized[n] for n in members], 600, "cpu")]
    for seed, reply in enumerate(replies):
        envs = VecNormalize(make_vec_env("Pendulum-v1", 2), **({} if vec_normalize is True else vec_normalize))
        sizes = {name: value for name, value in SIZES.items() if name != "n_envs"}
        model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **sizes, **options).learn(600)
        trained = pickle.loads(pickle.dumps(reply.value))
        assert distance(trained.policy, model.policy) < 2e-6
        copy = trained.vec_env(make_vec_env("Pendulum-v1", 1))
        observation = np.array([[0.5, -0.5, 3.0]], np.float32)
        np.testing.assert_allclose(copy.normalize_obs(observation), envs.normalize_obs(observation), rtol=1e-5)
        reward = np.array([-5.0], np.float32)
        np.testing.assert_allclose(copy.normalize_reward(reward), envs.normalize_reward(reward), rtol=1e-5)
        (tmp_path / "file").write_bytes(trained.normalize)
        loaded = VecNormalize.load(tmp_path / "file", make_vec_env("Pendulum-v1", 1))
        np.testing.assert_array_equal(loaded.obs_rms.mean, copy.obs_rms.mean)
        assert not copy.training and copy.num_envs == 1 and copy.norm_reward == envs.norm_reward


def test_configs_with_other_normalization_are_not_batched():
    assert groups.divide([*configs(True), *configs({"clip_obs": 5.0}), *configs(False)], 1) == [[0, 1], [2, 3], [4, 5]]


def test_a_run_without_statistics_says_so():
    (reply,) = task._train([{"env": "Pendulum-v1", "n_steps": 64, "n_epochs": 1, "seed": 0}], 64, "cpu")
    with pytest.raises(ValueError, match="needs a config with vec_normalize"):
        reply.value.vec_env(make_vec_env("Pendulum-v1", 1))
