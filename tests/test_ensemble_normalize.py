"""EnsemblePPO with vec_normalize: each member has the statistics of its own VecNormalize, and learns the same."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from rlrepro.fixes import EnsemblePPO

from .policies import distance

SIZES = {"n_steps": 128, "batch_size": 64, "n_epochs": 3}
ROUNDING = 5e-6


def short_pendulum():
    return gym.make("Pendulum-v1", max_episode_steps=25)


@pytest.mark.parametrize(
    "env, n_envs, options",
    [
        pytest.param(short_pendulum, 1, {}, marks=pytest.mark.slow),
        (short_pendulum, 3, {"gamma": [0.9, 0.99], "clip_obs": 1.5, "clip_reward": 0.7}),
        pytest.param("CartPole-v1", 2, {"norm_reward": False}, marks=pytest.mark.slow),
        pytest.param(short_pendulum, 2, {"norm_obs": False, "epsilon": 1e-3}, marks=pytest.mark.slow),
    ],
)
def test_each_member_is_normalized_as_sb3_does_it_alone(env, n_envs, options):
    seeds = [4, 9]
    ensemble = EnsemblePPO(env, seeds=seeds, n_envs=n_envs, vec_normalize=options, vectorization="sync", **SIZES)
    ensemble.learn(768)
    for member, seed in enumerate(seeds):
        of_member = {name: value[member] if isinstance(value, list) else value for name, value in options.items()}
        venv = VecNormalize(make_vec_env(env, n_envs), **of_member)
        reference = PPO("MlpPolicy", venv, seed=seed, device="cpu", **SIZES).learn(768)
        assert distance(ensemble.policy(member), reference.policy) < ROUNDING
        raw = [episode["r"] for episode in reference.ep_info_buffer]
        assert sorted(ensemble.episodes[member].returns) == pytest.approx(sorted(raw), rel=1e-4)
        member_venv = ensemble.vec_env(member, make_vec_env(env, n_envs))
        for name in ("obs_rms", "ret_rms") if of_member.get("norm_obs", True) else ("ret_rms",):
            for statistic in ("mean", "var", "count"):
                actual, expected = (getattr(getattr(normalizer, name), statistic) for normalizer in (member_venv, venv))
                assert np.allclose(actual, expected, rtol=1e-4, atol=1e-6)
        observations = np.random.default_rng(0).normal(size=(5, *venv.observation_space.shape)).astype(np.float32)
        assert np.allclose(member_venv.normalize_obs(observations), venv.normalize_obs(observations), atol=1e-4)
        rewards = np.linspace(-3, 3, 5)
        assert np.allclose(member_venv.normalize_reward(rewards), venv.normalize_reward(rewards), atol=1e-4)


def test_an_ensemble_without_statistics_says_so():
    ensemble = EnsemblePPO("Pendulum-v1", seeds=[0], n_steps=64, vectorization="sync")
    with pytest.raises(ValueError, match="this one does not normalize"):
        ensemble.vec_env(0, make_vec_env("Pendulum-v1"))


class Hundredths(gym.ObservationWrapper):
    """CartPole, whose observations are whole hundredths, as floats or as integers."""

    def __init__(self, dtype):
        super().__init__(gym.make("CartPole-v1"))
        self.observation_space = gym.spaces.Box(-(10**6), 10**6, (4,), dtype)

    def observation(self, observation):
        return (100 * observation).round().astype(self.observation_space.dtype)


def test_integers_are_normalized_like_the_same_numbers_as_floats():
    """Stable-Baselines3 from 2.7.1 on stores the normalized numbers as integers."""
    ensemble = EnsemblePPO(lambda: Hundredths(np.int32), seeds=[3], vec_normalize=True, vectorization="sync", **SIZES)
    venv = VecNormalize(make_vec_env(lambda: Hundredths(np.float32)))
    reference = PPO("MlpPolicy", venv, seed=3, device="cpu", **SIZES).learn(256)
    assert distance(ensemble.learn(256).policy(0), reference.policy) < ROUNDING
