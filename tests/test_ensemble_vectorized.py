"""EnsemblePPO on environments that are vectorized themselves."""

import gymnasium as gym
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from rlrepro.fixes import EnsemblePPO

from .policies import distance
from .vector_pendulum import VectorPendulum

SIZES = {"n_steps": 128, "n_epochs": 2, "n_envs": 2}


def short_pendulum():
    return gym.make("Pendulum-v1", max_episode_steps=50)


class Reusing(VectorPendulum):
    """Overwrites what it returned in the step before."""

    arrays = None

    def step(self, actions):
        *transition, infos = super().step(actions)
        fresh = [*transition, infos["final_obs"]]
        self.arrays = self.arrays or [array.copy() for array in fresh]
        for array, values in zip(self.arrays, fresh, strict=True):
            array[...] = values
        return *self.arrays[:-1], {"final_obs": self.arrays[-1]}


@pytest.mark.parametrize("cls", [VectorPendulum, Reusing])
def test_one_call_steps_the_same_as_sb3_alone(cls):
    seeds = [3, 8, 1]
    ensemble = EnsemblePPO(cls(6, max_steps=50), seeds=seeds, vec_normalize=False, **SIZES).learn(768)
    for member, seed in enumerate(seeds):
        options = {name: value for name, value in SIZES.items() if name != "n_envs"}
        reference = PPO("MlpPolicy", make_vec_env(short_pendulum, 2), seed=seed, device="cpu", **options).learn(768)
        assert distance(ensemble.policy(member), reference.policy) < 5e-6
        assert ensemble.episodes[member].lengths == [50] * 14


@pytest.mark.parametrize(
    "env, message",
    [
        (lambda: VectorPendulum(3), "expected 2 members × 2 environments, found a VectorEnv of 3"),
        (lambda: gym.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point"), "autoreset_mode SAME_STEP"),
    ],
)
def test_a_vectorized_environment_that_does_not_fit_is_refused(env, message):
    with pytest.raises(ValueError, match=message):
        EnsemblePPO(env(), seeds=[0, 1], **SIZES)


def test_a_file_that_does_not_match_leaves_the_environments_open(tmp_path):
    EnsemblePPO("CartPole-v1", seeds=[3, 8], vectorization="sync", **SIZES).save(tmp_path / "ensemble.pt")
    envs = VectorPendulum(4)
    with pytest.raises(ValueError, match="pass equal arguments"):
        EnsemblePPO.load(tmp_path / "ensemble.pt", envs)
    assert not envs.closed
    EnsemblePPO(envs, seeds=[3, 8], **SIZES).learn(256)
