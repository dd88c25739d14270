"""Members of an EnsemblePPO that their callback has stopped stay as they were, while the others learn on."""

from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from rlrepro.fixes import EnsemblePPO

from .policies import distance

STEPS, SEEDS = 64, (3, 5)
SIZES = {"n_steps": STEPS, "n_epochs": 2, "learning_rate": 1e-2}


class Stop(BaseCallback):
    def __init__(self, last):
        super().__init__()
        self.last = last

    def _on_step(self):
        return self.num_timesteps != self.last


def short_pendulum():
    return gym.make("Pendulum-v1", max_episode_steps=20)


def stopped_first(lasts=(STEPS + 1, None)):
    """An ensemble whose first member stopped after its first update, and the state of that member then."""
    ensemble = EnsemblePPO(short_pendulum, seeds=SEEDS, vec_normalize=True, vectorization="sync", **SIZES)
    ensemble.learn(2 * STEPS, callback=lambda k: Stop(lasts[k]))
    return ensemble, state_of(ensemble)


def state_of(ensemble):
    statistics = [array.tolist() for array in ensemble.normalize.statistics(0)]
    return ensemble.networks.flat[0].tolist(), deepcopy(ensemble.episodes[0]), statistics


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_stopped_member_stays_as_it_is_in_later_calls(is_loaded, tmp_path):
    ensemble, at_stop = stopped_first()
    if is_loaded:
        ensemble.save(tmp_path / "ensemble.pt")
        ensemble = EnsemblePPO.load(tmp_path / "ensemble.pt", short_pendulum)
        assert state_of(ensemble) == at_stop
    called = []
    with pytest.warns(UserWarning, match=r"members \[0\] have stopped and train no further: policy\(k\) returns what"):
        ensemble.learn(2 * STEPS, callback=lambda k: called.append(k) or Stop(None))
    assert state_of(ensemble) == at_stop and called == [1] and len(ensemble.episodes[0].returns) == 3
    assert [ensemble.model(k).num_timesteps for k in (0, 1)] == [STEPS + 1, 4 * STEPS]


@pytest.mark.filterwarnings("ignore:members .0. have stopped")
def test_the_other_member_continues_as_sb3_alone():
    ensemble, _ = stopped_first()
    ensemble.learn(2 * STEPS)
    venv = VecNormalize(DummyVecEnv([short_pendulum]))
    reference = PPO("MlpPolicy", venv, seed=SEEDS[1], device="cpu", **SIZES).learn(2 * STEPS)
    reference.learn(2 * STEPS, reset_num_timesteps=False)
    assert distance(ensemble.policy(1), reference.policy) < 2e-5


def test_an_ensemble_whose_members_have_all_stopped_learns_no_further():
    ensemble, _ = stopped_first(lasts=(STEPS + 1, STEPS + 2))
    with pytest.raises(RuntimeError, match=r"all members have stopped.* make a new ensemble"):
        ensemble.learn(STEPS)


def test_a_stopped_member_may_diverge_afterwards():
    class Diverging(gym.Wrapper):
        def step(self, action):
            observation, reward, *rest = self.env.step(action)
            steps[0] += 1
            return observation, np.nan if steps[0] > 200 else reward, *rest

    steps = [0]
    envs = [lambda: Diverging(short_pendulum()), short_pendulum]
    ensemble = EnsemblePPO(envs, seeds=SEEDS, vectorization="sync", **SIZES)
    ensemble.learn(5 * STEPS, callback=lambda k: Stop((STEPS + 1, None)[k]))
    assert steps[0] > 300 and torch.isfinite(ensemble.networks.flat).all()


def broken_pendulum():
    """Its rewards are NaN from its second rollout on."""

    class Broken(gym.Wrapper):
        steps = 0

        def step(self, action):
            self.steps += 1
            observation, reward, *rest = self.env.step(action)
            return observation, np.nan if self.steps > STEPS else reward, *rest

    return Broken(short_pendulum())


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_member_that_diverges_stops_and_the_others_learn_as_alone(is_loaded, tmp_path):
    ensemble = EnsemblePPO([broken_pendulum, short_pendulum], seeds=SEEDS, vectorization="sync", **SIZES)
    ensemble.learn(STEPS)
    before = ensemble.networks.flat[0].tolist()
    with pytest.warns(UserWarning, match=r"members \[0\] were stopped: an update made weights non-finite"):
        ensemble.learn(2 * STEPS)
    if is_loaded:
        ensemble.save(tmp_path / "ensemble.pt")
        ensemble = EnsemblePPO.load(tmp_path / "ensemble.pt", [broken_pendulum, short_pendulum])
    assert ensemble.diverged == [0] and ensemble.networks.flat[0].tolist() == before
    reference = PPO("MlpPolicy", short_pendulum(), seed=SEEDS[1], device="cpu", **SIZES).learn(STEPS)
    reference.learn(2 * STEPS, reset_num_timesteps=False)
    assert distance(ensemble.policy(1), reference.policy) < 2e-5


def test_an_ensemble_whose_members_have_all_diverged_learns_no_further():
    ensemble = EnsemblePPO(broken_pendulum, seeds=[3], vectorization="sync", **SIZES)
    with pytest.warns(UserWarning, match=r"members \[0\] were stopped"):
        ensemble.learn(10 * STEPS)
    model = ensemble.model(0)
    model.set_env(PPO("MlpPolicy", short_pendulum(), device="cpu").env)
    model.learn(STEPS)  # its weights and its new Adam are finite
    assert all(weight.isfinite().all() for weight in model.policy.parameters())
    assert ensemble.num_timesteps == 2 * STEPS
    with pytest.raises(RuntimeError, match="all members have stopped"):
        ensemble.learn(STEPS)
