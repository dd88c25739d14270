"""An EnsemblePPO that is saved, loaded and trained further agrees with Stable-Baselines3."""

import gymnasium as gym
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from rlrepro.fixes import EnsemblePPO

from .policies import distance

SIZES = {"n_steps": 64, "n_epochs": 2}
PER_MEMBER = {"learning_rate": [1e-3, lambda remaining: 1e-2 * remaining], "target_kl": [None, 1e-2]}


@pytest.mark.parametrize("vec_normalize", [False, True])
def test_a_loaded_ensemble_continues_as_sb3(tmp_path, vec_normalize):
    ensemble = EnsemblePPO(
        "CartPole-v1", seeds=[3, 4], vec_normalize=vec_normalize, vectorization="sync", **PER_MEMBER, **SIZES
    )
    ensemble.learn(128).save(tmp_path / "ensemble.pt")
    loaded = EnsemblePPO.load(tmp_path / "ensemble.pt", "CartPole-v1")
    assert loaded.episodes == ensemble.episodes and loaded.num_timesteps == 128
    assert torch.equal(loaded.networks.flat, ensemble.networks.flat)
    loaded.learn(128)
    for member, seed in enumerate([3, 4]):
        of_member = {name: values[member] for name, values in PER_MEMBER.items()}
        venv = make_vec_env("CartPole-v1", 1)
        venv = VecNormalize(venv) if vec_normalize else venv
        reference = PPO("MlpPolicy", venv, seed=seed, device="cpu", **of_member, **SIZES).learn(128)
        reference.save(tmp_path / "alone")
        second_venv = make_vec_env("CartPole-v1", 1)
        if vec_normalize:
            venv.save(tmp_path / "statistics")
            second_venv = VecNormalize.load(tmp_path / "statistics", second_venv)
        reference = PPO.load(tmp_path / "alone", second_venv, device="cpu").learn(128, reset_num_timesteps=False)
        assert distance(loaded.policy(member), reference.policy) < 5e-6
        assert loaded.num_timesteps == reference.num_timesteps == 256


def test_other_environments_than_it_was_trained_on_are_refused(tmp_path):
    EnsemblePPO("CartPole-v1", seeds=[0], vectorization="sync", **SIZES).save(tmp_path / "ensemble.pt")
    with pytest.raises(
        ValueError, match=r"expected \(members, weights\) \(1, 9155\) as in the file, found \(1, 8963\)"
    ):
        EnsemblePPO.load(tmp_path / "ensemble.pt", lambda: gym.make("Pendulum-v1"))


@pytest.mark.parametrize("rate", [2e-3, [1e-3, 2e-3]])
def test_another_learning_rate_replaces_the_old_one(tmp_path, rate):
    for index, saved_rate in enumerate([3e-4, [3e-4, 5e-4]]):
        path = tmp_path / f"{index}.pt"
        EnsemblePPO("CartPole-v1", seeds=[3, 4], vectorization="sync", learning_rate=saved_rate, **SIZES).save(path)
        loaded = EnsemblePPO.load(path, "CartPole-v1", learning_rate=rate).learn(64)
        reference = PPO("MlpPolicy", "CartPole-v1", seed=4, device="cpu", learning_rate=2e-3, **SIZES).learn(64)
        assert distance(loaded.policy(1), reference.policy) < 5e-6


def test_target_kl_can_not_be_added(tmp_path):
    EnsemblePPO("CartPole-v1", seeds=[0, 1], vectorization="sync", **SIZES).save(tmp_path / "ensemble.pt")
    with pytest.raises(ValueError, match="target_kl can be changed"):
        EnsemblePPO.load(tmp_path / "ensemble.pt", "CartPole-v1", target_kl=0.01)


AMSGRAD = {"policy_kwargs": {"optimizer_kwargs": {"amsgrad": True}}}


@pytest.mark.parametrize("options", [{}, {"learning_rate": [1e-3, 3e-4]}, {"target_kl": 0.03}, AMSGRAD])
def test_stable_baselines3_goes_on_with_a_member(options, tmp_path):
    """As with a model that was trained, saved and loaded alone."""
    ensemble = EnsemblePPO("Pendulum-v1", seeds=[3, 4], vectorization="sync", **SIZES, **options).learn(128)
    ensemble.model(1).save(tmp_path / "member")
    alone_options = {name: value[1] if isinstance(value, list) else value for name, value in options.items()}
    alone = PPO("MlpPolicy", "Pendulum-v1", seed=4, device="cpu", **SIZES, **alone_options).learn(128)
    alone.save(tmp_path / "alone")
    ours, theirs = (
        PPO.load(tmp_path / name, make_vec_env("Pendulum-v1", 1), device="cpu").learn(128, reset_num_timesteps=False)
        for name in ("member", "alone")
    )
    assert ours.num_timesteps == theirs.num_timesteps == 256
    assert distance(ours.policy, theirs.policy) < 2e-5
