"""Updates of sb3-contrib's algorithms, planned and run."""

from unittest.mock import patch

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlrepro.fit import CannotPlan, plan_model
from rlrepro.fit.padded_sequences import padded_size, worst_starts
from rlrepro.lab import VirtualCard

sb3_contrib = pytest.importorskip("sb3_contrib")
CHOICE = spaces.Discrete(6)
STEPS, ENVS, ROWS = 16, 2, 16  # of a recurrent model
LSTM = {"lstm_hidden_size": 32, "net_arch": [32]}


def build(algorithm, policy, envs=1, **arguments):
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv

    class Env(gym.Env):
        observation_space, action_space = spaces.Box(-1, 1, (17,), np.float32), CHOICE

    model = getattr(sb3_contrib, algorithm)(policy, DummyVecEnv([Env] * envs), device="cpu", **arguments)
    model.set_logger(Logger(None, []))
    return model


def recurrent(**overrides):
    sizes = {"n_steps": STEPS, "batch_size": ROWS, "n_epochs": 2, "envs": ENVS}
    return build("RecurrentPPO", "MlpLstmPolicy", policy_kwargs=LSTM, **sizes | overrides)


def peak_of(make, train) -> tuple:
    """A model, and the peak of its second update."""
    with VirtualCard(64, device="cpu") as card:
        model = make()
        train(model)
        card.restart_peak()
        train(model)
        return model, card.peak_bytes


def train_recurrent(model, starts):
    """An update; in its minibatches, episodes start at these transitions."""
    buffer, starts_episode = model.rollout_buffer, np.zeros(model.n_steps * model.n_envs)
    for start in range(0, len(starts_episode), model.batch_size):
        starts_episode[start + starts] = 1
    buffer.reset()
    buffer.full = True
    buffer.episode_starts[:] = starts_episode.reshape(model.n_envs, model.n_steps).T
    with patch("numpy.random.randint", lambda _: 0):  # the row at which the buffer starts to read
        model.train()


@pytest.mark.slow
@pytest.mark.parametrize("max_sequences", [None, 3])
def test_the_update_with_the_longest_padded_sequences_is_planned(max_sequences):
    starts = worst_starts(ROWS, STEPS, max_sequences)
    model, peak = peak_of(recurrent, lambda model: train_recurrent(model, starts))
    planned = plan_model(model, device="cpu", **({"sequences": max_sequences} if max_sequences else {}))
    assert planned.stages["learn"] == pytest.approx(peak, abs=64)  # a few numbers
    assert ("3 sequences of 14 steps" if max_sequences else "9 sequences of 8 steps") in planned.notes[0]


@pytest.mark.slow
def test_other_sequences_need_less_than_planned():
    limit = plan_model(recurrent(), device="cpu").stages["learn"]
    assert limit == plan_model(recurrent(), device="cpu").stages["learn"]  # regardless of the random state
    for count in (1, 5, ROWS):
        for starts in (np.arange(count), np.arange(ROWS - count, ROWS)):
            _, peak = peak_of(recurrent, lambda model, starts=starts: train_recurrent(model, starts))
            assert peak <= limit


@pytest.mark.parametrize("rows, longest", [(1, 4), (7, 16), (16, 16), (30, 4), (33, 12)])
def test_no_number_of_sequences_takes_more_steps_when_padded(rows, longest):
    possible = [count for count in range(1, rows + 1) if count * longest >= rows]
    steps = {count: count * min(rows - count + 1, longest) for count in possible}
    for max_sequences in (None, *possible):
        count, length = padded_size(rows, longest, max_sequences)
        assert count * length == max(
            size for n_sequences, size in steps.items() if n_sequences <= (max_sequences or rows)
        )
        lengths = np.diff([*worst_starts(rows, longest, max_sequences), rows])
        assert len(lengths) == count and max(lengths) == lengths[0] == length and min(lengths) > 0


def test_qrdqn_is_planned_as_it_runs():
    def train(model):
        model.replay_buffer.full = True
        model.train(gradient_steps=2, batch_size=model.batch_size)

    model, peak = peak_of(lambda: build("QRDQN", "MlpPolicy", buffer_size=1000, batch_size=64), train)
    assert plan_model(model, device="cpu").stages["learn"] == pytest.approx(peak, abs=300)
    with pytest.raises(CannotPlan, match="sequences is a size of recurrent algorithms; QRDQN has none"):
        plan_model(model, device="cpu", sequences=2)
