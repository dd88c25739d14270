"""EnsemblePPO in the Stable-Baselines3 and gymnasium that are installed."""

import pytest
import torch
from stable_baselines3 import PPO
from torch.nn.utils import parameters_to_vector

from .learner import EnsemblePPO

OPTIONS = {"n_steps": 64, "batch_size": 32, "n_epochs": 2, "policy_kwargs": {"net_arch": [16]}}
ROUNDING = 1e-4  # of weights, after eight rollouts


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_each_member_learns_what_stable_baselines3_learns(env):
    seeds = [11, 5]
    ensemble = EnsemblePPO(env, seeds=seeds, vectorization="sync", **OPTIONS).learn(512)
    for member, seed in enumerate(seeds):
        alone = PPO("MlpPolicy", env, seed=seed, device="cpu", **OPTIONS).learn(512)
        policies = ensemble.policy(member), alone.policy
        learned, expected = (parameters_to_vector(policy.parameters()) for policy in policies)
        assert (learned - expected).abs().max() < ROUNDING
        lengths = [episode["l"] for episode in alone.ep_info_buffer]
        assert ensemble.episodes[member].lengths == lengths


def test_a_policy_is_stable_baselines3s_own(tmp_path):
    ensemble = EnsemblePPO("CartPole-v1", seeds=[0, 1], vectorization="sync", **OPTIONS).learn(64)
    policy = ensemble.policy(1)
    policy.save(tmp_path / "member")
    loaded = type(policy).load(tmp_path / "member")
    assert torch.equal(parameters_to_vector(loaded.parameters()), parameters_to_vector(policy.parameters()))
