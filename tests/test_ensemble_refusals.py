"""EnsemblePPO refuses settings that it can't train, and names a member that fails."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.torch_layers import FlattenExtractor

from rlrepro.fixes import EnsemblePPO

pytestmark = pytest.mark.usefixtures("no_processes")


class Failing(gym.Wrapper):
    def step(self, action):
        raise FloatingPointError("joint 3 is not a number")


class Spaces(gym.Env):
    """An environment with these spaces and this reward, which may be NaN."""

    def __init__(self, observations=None, actions=None, reward=0.0):
        self.observation_space = observations or gym.spaces.Box(-1, 1, (3,))
        self.action_space, self.reward = actions or gym.spaces.Box(-1, 1, (2,)), reward

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), self.reward, False, False, {}


class Half(FlattenExtractor):
    def forward(self, observations):
        return super().forward(observations) / 2


def test_a_copy_is_refused_since_it_would_not_learn():
    with pytest.raises(TypeError, match=r"use save\(path\)"):
        pickle.dumps(EnsemblePPO("Pendulum-v1", seeds=[0], n_steps=8))


def test_an_environment_that_raises_is_named():
    envs = ["Pendulum-v1", lambda: Failing(gym.make("Pendulum-v1"))]
    ensemble = EnsemblePPO(envs, seeds=[0, 1], n_steps=8, vectorization="sync")
    with pytest.raises(FloatingPointError) as raised:
        ensemble.learn(8)
    assert "member 1" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    "env, options, message",
    [
        (["Pendulum-v1", "CartPole-v1"], {"seeds": [0, 1]}, "member 1 has"),
        (["Pendulum-v1"], {"seeds": [0, 1]}, "an environment for each of 2 members, found 1"),
        ("Pendulum-v1", {"seeds": []}, "seeds must be at least one"),
        ("Pendulum-v1", {"seeds": [0], "n_steps": 0}, "n_steps must be a whole number of 1 or more, found 0"),
        ("Pendulum-v1", {"seeds": [0], "vectorization": "threads"}, "vectorization must be one of"),
        ("Blackjack-v1", {"seeds": [0]}, "observations must be vectors"),
        (
            lambda: Spaces(actions=gym.spaces.Box(-1, 1, (2, 3))),
            {"seeds": [0]},
            "actions must be Discrete, or a one-",
        ),
        (lambda: Spaces(actions=gym.spaces.Box(-3, 3, (2,), np.int64)), {"seeds": [0]}, "Box of floats"),
        (lambda: Spaces(observations=gym.spaces.Box(-1, 1, (3, 4))), {"seeds": [0]}, "observations must be vectors"),
        ([lambda: Spaces(), lambda: Spaces(actions=gym.spaces.Box(-9, 9, (2,)))], {"seeds": [0, 1]}, "member 1 has"),
        (lambda env=gym.make("Pendulum-v1"): env, {"seeds": [0, 1]}, "member 1 shares an"),  # noqa: B008
        (lambda env=gym.make("Pendulum-v1"): env, {"seeds": [0], "n_envs": 2}, "member 0 shares an"),  # noqa: B008
        (lambda: Spaces(actions=gym.spaces.Box(-np.inf, np.inf, (2,))), {"seeds": [0]}, "bounded Box"),
        ("Pendulum-v1", {"seeds": [0], "batch_size": 1}, "at least 2 transitions, found batch_size=1"),
        ("Pendulum-v1", {"seeds": [0], "clip_range_vf": 0}, "clip_range_vf must be a positive number"),
        ("Pendulum-v1", {"seeds": [0], "policy_kwargs": {"optimizer_class": torch.optim.RAdam}}, "found RAdam"),
        ("Pendulum-v1", {"seeds": [0], "policy_kwargs": {"use_sde": True}}, "use_sde must be False"),
        ("Pendulum-v1", {"seeds": [0], "policy_kwargs": {"activation_fn": torch.nn.PReLU}}, "found PReLU"),
        ("Pendulum-v1", {"seeds": [0], "policy_kwargs": {"features_extractor_class": Half}}, "found Half"),
    ],
)
def test_settings_that_it_cannot_train_are_refused(env, options, message):
    with pytest.raises(ValueError, match=message):
        EnsemblePPO(env, **options)
