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


def recurrent(**more):
    sizes = {"n_steps": STEPS, "batch_size": ROWS, "n_epochs": 2, "envs": ENVS}
    return build("RecurrentPPO", "MlpLstmPolicy", policy_kwargs=LSTM, **sizes | more)


def peak_of(make, train) -> tuple:
    """A model, and the peak of its second update."""
    with VirtualCard(64, device="cpu") as card:
        model = make()
        train(model)
        card.restart_peak()
        train(model)
        return model, card.peak_bytes


def train_recurrent(model, starts):
    """An update in whose minibatches episodes start at these transitions."""
    buffer, rows = model.rollout_buffer, np.zeros(model.n_steps * model.n_envs)
    for first in range(0, len(rows), model.batch_size):
        rows[first + starts] = 1
    buffer.reset()
    buffer.full = True
    buffer.episode_starts[:] = rows.reshape(model.n_envs, model.n_steps).T
    with patch("numpy.random.randint", lambda _: 0):  # where the buffer starts to read
        model.train()


@pytest.mark.slow
@pytest.mark.parametrize("most", [None, 3])
def test_an_update_whose_sequences_take_the_most_is_planned(most):
    starts = worst_starts(ROWS, STEPS, most)
    model, found = peak_of(recurrent, lambda model: train_recurrent(model, starts))
    planned = plan_model(model, device="cpu", **({"sequences": most} if most else {}))
    assert planned.stages["learn"] == pytest.approx(found, abs=64)  # a few numbers
    assert ("3 sequences of 14 steps" if most else "9 sequences of 8 steps") in planned.notes[0]


@pytest.mark.slow
def test_other_sequences_need_less_than_planned():
    limit = plan_model(recurrent(), device="cpu").stages["learn"]
    assert limit == plan_model(recurrent(), device="cpu").stages["learn"]  # whatever the random state
    for count in (1, 5, ROWS):
        for starts in (np.arange(count), np.arange(ROWS - count, ROWS)):
            _, found = peak_of(recurrent, lambda model, starts=starts: train_recurrent(model, starts))
            assert found <= limit


@pytest.mark.parametrize("rows, longest", [(1, 4), (7, 16), (16, 16), (30, 4), (33, 12)])
def test_no_number_of_sequences_takes_more_steps_when_padded(rows, longest):
    possible = [count for count in range(1, rows + 1) if count * longest >= rows]
    steps = {count: count * min(rows - count + 1, longest) for count in possible}
    for most in (None, *possible):
        count, length = padded_size(rows, longest, most)
        assert count * length == max(size for each, size in steps.items() if each <= (most or rows))
        lengths = np.diff([*worst_starts(rows, longest, most), rows])
        assert len(lengths) == count and max(lengths) == lengths[0] == length and min(lengths) > 0


def test_qrdqn_is_planned_as_it_runs():
    def train(model):
        model.replay_buffer.full = True
        model.train(gradient_steps=2, batch_size=model.batch_size)

    model, found = peak_of(lambda: build("QRDQN", "MlpPolicy", buffer_size=1000, batch_size=64), train)
    assert plan_model(model, device="cpu").stages["learn"] == pytest.approx(found, abs=300)
    with pytest.raises(CannotPlan, match="sequences is a size of recurrent algorithms; QRDQN has none"):
        plan_model(model, device="cpu", sequences=2)
