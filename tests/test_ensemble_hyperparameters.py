"""EnsemblePPO with hyperparameters per member: each member learns what Stable-Baselines3 learns with them."""

import math
import warnings
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from stable_baselines3 import PPO

from rlrepro.fixes import EnsemblePPO

from .policies import distance, weights

MEMBERS = 3
ROUNDING = 2e-5  # of weights, after 1,000 steps at a learning rate of 1e-3
pytestmark = pytest.mark.filterwarnings("ignore:You have specified a mini.batch size", "ignore:batch_size=")


def ensemble(env="Pendulum-v1", **options):
    return EnsemblePPO(env, vectorization="sync", **options)


def schedule(first: float):
    """It ends above 0: with a clip range of 0, the last bit would decide which samples have a gradient."""
    return st.sampled_from([first, lambda remaining: first * (1 + remaining) / 2])


def logarithmic(lowest: float, highest: float):
    return st.floats(math.log(lowest), math.log(highest)).map(math.exp)


OF_A_MEMBER = {
    "learning_rate": logarithmic(1e-5, 1e-3).flatmap(schedule),
    "clip_range": st.floats(0.01, 0.5).flatmap(schedule),
    "clip_range_vf": st.none() | st.floats(0.01, 10).flatmap(schedule),
    "ent_coef": st.just(0.0) | st.floats(0, 0.1),
    "vf_coef": st.floats(0, 1),
    "gamma": st.floats(0, 1),
    "gae_lambda": st.floats(0, 1),
    "max_grad_norm": logarithmic(1e-3, 10),
    "target_kl": st.none() | logarithmic(1e-5, 0.1),
}
OF_ALL = {
    "n_steps": st.sampled_from([64, 125, 500]),
    "batch_size": st.sampled_from([25, 64, 600]),
    "n_epochs": st.integers(1, 4),
    "n_envs": st.integers(1, 2),
    "normalize_advantage": st.booleans(),
    "optimizer": st.sampled_from([("Adam", 0.0), ("Adam", 0.01), ("AdamW", 0.01)]),
}


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(
    per_member=st.fixed_dictionaries(
        {name: st.lists(values, min_size=MEMBERS, max_size=MEMBERS) for name, values in OF_A_MEMBER.items()}
    ),
    shared=st.fixed_dictionaries(OF_ALL),
    seeds=st.lists(st.integers(0, 2**31), min_size=MEMBERS, max_size=MEMBERS),
)
def test_members_with_any_hyperparameters_learn_the_same_as_sb3(per_member, shared, seeds):
    # without a gradient, L2 decay drives the critic's weights to 0, where Adam turns their last bit into full steps
    assume(shared["optimizer"] != ("Adam", 0.01) or min(per_member["vf_coef"]) > 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(per_member, shared, seeds)


def compare(per_member, shared, seeds, env="Pendulum-v1"):
    from stable_baselines3.common.env_util import make_vec_env

    optimizer, decay = shared.pop("optimizer", ("Adam", 0.0))
    kwargs = {
        "optimizer_class": getattr(torch.optim, optimizer),
        "optimizer_kwargs": {"weight_decay": decay, "eps": 1e-5},
        "net_arch": [32],
    }
    members = ensemble(env, seeds=seeds, policy_kwargs=kwargs, **per_member, **shared).learn(1000)
    n_envs = shared.pop("n_envs", 1)

    def alone(member, scale=1.0):
        of_member = {name: values[member] for name, values in per_member.items()}
        options = {"seed": seeds[member], "device": "cpu", "policy_kwargs": dict(kwargs), **of_member, **shared}
        model = PPO("MlpPolicy", make_vec_env(env, n_envs), **options)
        with torch.no_grad():
            for parameter in model.policy.parameters():
                parameter.mul_(scale)
        return model.learn(1000)

    for member in range(len(seeds)):
        reference = alone(member)
        assert members.num_timesteps == reference.num_timesteps
        apart = distance(members.policy(member), reference.policy)
        if apart >= ROUNDING:  # then rounding must matter as much to SB3: a ratio may lie at the edge of the clip range
            scales = [1 + step * torch.finfo(torch.float32).eps for step in (-3, -2, -1, 1, 2, 3)]
            assert apart < 3 * max(distance(alone(member, scale).policy, reference.policy) for scale in scales), member


@pytest.mark.slow
def test_each_member_learns_with_its_own_hyperparameters():
    """One case of the property above, on an environment whose episodes end by themselves."""
    per_member = {
        "learning_rate": [1e-3, lambda remaining: 3e-3 * remaining, 3e-4],
        "clip_range": [0.1, 0.2, lambda remaining: 0.3 * remaining],
        "clip_range_vf": [None, 0.1, lambda remaining: 0.2 * remaining],
        "ent_coef": [0.0, 0.01, 0.05],
        "vf_coef": [0.5, 0.2, 1],
        "gamma": [0.99, 0.9, 1],
        "gae_lambda": [0.95, 1, 0.5],
        "max_grad_norm": [0.5, 0.01, math.inf],
        "target_kl": [None, 1e-3, 0.01],
    }
    compare(per_member, {"n_steps": 128, "batch_size": 50, "n_epochs": 4}, [7, 7, 8], "CartPole-v1")


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW])
def test_a_learning_rate_of_each_member_scales_its_weight_decay(optimizer):
    kwargs = {"optimizer_class": optimizer, "optimizer_kwargs": {"weight_decay": 0.1}}
    options = {"policy_kwargs": kwargs, "n_steps": 64, "n_epochs": 2}
    members = ensemble(seeds=[0, 1], learning_rate=[1e-3, 1e-2], target_kl=[1e-9, None], **options).learn(192)
    for member, rate, target_kl in ((0, 1e-3, 1e-9), (1, 1e-2, None)):
        reference = PPO("MlpPolicy", "Pendulum-v1", learning_rate=rate, target_kl=target_kl, seed=member, **options)
        assert distance(members.policy(member), reference.learn(192).policy) < 2e-6


def test_a_policy_is_a_copy():
    members = ensemble(seeds=[0, 1], n_steps=64).learn(64)
    policy, at_copy = members.policy(1), weights(members.policy(1)).clone()
    members.learn(64)
    assert torch.equal(weights(policy), at_copy)
    with torch.no_grad():
        next(policy.parameters()).add_(1)
    assert not torch.equal(weights(members.policy(1)), at_copy)
    before = members.networks.flat.clone()
    with torch.no_grad():
        for parameter in members.policy(0).parameters():
            parameter.zero_()
    assert torch.equal(members.networks.flat, before)


def test_episodes_say_when_each_ended():
    members = ensemble("CartPole-v1", seeds=[0, 1], n_steps=128).learn(128)
    for episodes in members.episodes:
        assert episodes.timesteps == list(np.cumsum(episodes.lengths))
        assert episodes.returns == episodes.lengths  # a reward of 1 in each step


@pytest.mark.parametrize(
    "options, message",
    [
        ({"env": gym.make("Pendulum-v1")}, r"pass lambda: gym.make\(...\)"),
        ({"env": [gym.make("Pendulum-v1")] * 2}, r"pass lambda: gym.make\(...\)"),
        ({"seeds": 4}, r"one for each member, as in range\(4\); found 4"),
        ({"seeds": [None]}, r"seeds must be integers.* found \[None\]"),
        ({"seeds": [0.5]}, r"seeds must be integers.* found \[0.5\]"),
        ({"seeds": [-1]}, r"from 0 to 2\*\*32 - 1, found \[-1\]"),
        ({"use_sde": True}, "use_sde must be False"),
        ({"learning_rate": -1e-3}, "learning_rate must be a number between 0 and inf; found -0.001 for member 0"),
        ({"learning_rate": [1e-3, lambda remaining: -1.0]}, "found -1.0 for member 1"),
        ({"learning_rate": "1e-3"}, "found '1e-3'"),
        ({"learning_rate": [1e-3] * 3}, "one for each of 2 members; found 3"),
        ({"gamma": [0.99, 1.01]}, "gamma must be a number between 0 and 1; found 1.01 for member 1"),
        ({"gamma": lambda remaining: 0.99}, "gamma must be a number: only learning_rate, clip_range"),
        ({"target_kl": 0}, "target_kl must be a positive number, or None; found 0"),
        ({"clip_range_vf": [None, -1]}, "clip_range_vf must be a positive number, or None; found -1"),
        ({"ent_coef": None}, "ent_coef must be a number between -inf and inf; found None"),
        ({"vf_coef": math.nan}, "vf_coef must be a number between 0 and inf; found nan"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ensemble(**{"seeds": [0, 1], **options})


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_missing_device_is_refused():
    with pytest.raises(ValueError, match="device must be 'cpu' or one of the 0 CUDA devices; found cuda"):
        ensemble(seeds=[0], device="cuda")


def test_a_device_may_be_chosen_automatically():
    assert ensemble(seeds=[0], device="auto").device.type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_members_that_learn_the_same_are_warned_about():
    with pytest.warns(
        UserWarning, match=r"members 0 and 2 learn the same policy, with equal seeds \(5\) and settings; change one"
    ):
        ensemble(seeds=[5, 6, 5], n_steps=64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ensemble(seeds=[5, 5], learning_rate=[1e-3, 1e-4], n_steps=64)


def test_a_batch_that_is_never_full_is_warned_about():
    with pytest.warns(UserWarning, match=r"batch_size=64 is larger than a member's rollout \(n_steps × n_envs = 20\)"):
        ensemble(seeds=[0], n_steps=10, n_envs=2)


@dataclass
class Linear:  # which can't be hashed
    first: float

    def __call__(self, remaining):
        return self.first * remaining


def test_a_schedule_may_be_any_callable():
    trained = EnsemblePPO("CartPole-v1", seeds=[0, 1], learning_rate=Linear(1e-3), n_steps=32, n_epochs=1).learn(64)
    reference = PPO(
        "MlpPolicy", "CartPole-v1", seed=1, learning_rate=Linear(1e-3), n_steps=32, n_epochs=1, device="cpu"
    )
    assert distance(trained.policy(1), reference.learn(64).policy) < 2e-6
