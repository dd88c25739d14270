"""incremental_nan_check in the tianshou 2.x that is installed, against tianshou's own check."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
import tianshou
import torch
from torch import nn

if int(tianshou.__version__.split(".")[0]) < 2:
    pytest.skip("for tianshou 2.x", allow_module_level=True)

from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, ReplayBuffer, VectorReplayBuffer
from tianshou.data.buffer.buffer_base import MalformedBufferError
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnlineTrainer

from .trainer import incremental_nan_check

STEPS, STORED = 40, 24  # the buffer wraps around
NO_FAULT = (None, None)


class Walk(gym.Env):
    """Random observations; in step `step`, counted from 1 over all episodes, one `part` of the transition is NaN."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, part, step):
        self.part, self.bad_step, self.steps, self.rng = part, step, 0, np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        return self.rng.random(3, np.float32), {"cost": 0.0, "name": "a"}

    def step(self, action):
        self.steps += 1
        obs, reward, info = self.rng.random(3, np.float32), 1.0, {"cost": 0.0, "name": "a"}
        if self.steps == self.bad_step:
            match self.part:
                case "obs":
                    obs[1] = np.nan
                case "rew":
                    reward = np.nan
                case name:
                    info[name] = None if name == "name" else np.nan
        return obs, reward, self.steps % 7 == 0, False, info


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, obs, state=None, info=None):
        return self.layer(torch.as_tensor(np.asarray(obs), dtype=torch.float32)), state


def train(part=None, step=None, buffer=None):
    """A short training run: (the weights, the error's message or None)."""
    torch.manual_seed(0)
    np.random.seed(0)
    policy = DiscreteQLearningPolicy(model=Network(), action_space=Walk.action_space, eps_training=0.5)
    algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-2))
    collector = Collector(
        algorithm, DummyVectorEnv([lambda: Walk(part, step)]), ReplayBuffer(STORED) if buffer is None else buffer
    )
    error = None
    try:
        algorithm.run_training(
            OffPolicyTrainerParams(
                training_collector=collector,
                max_epochs=1,
                epoch_num_steps=STEPS,
                collection_step_num_env_steps=1,
                batch_size=4,
                show_progress=False,
                test_in_training=False,
            )
        )
    except MalformedBufferError as raised:
        error = str(raised)
    return policy.model.layer.weight.detach().clone(), error


@pytest.fixture
def fixed():
    undo = incremental_nan_check()
    yield
    undo()


@pytest.mark.parametrize("fault", [NO_FAULT, ("obs", 5), ("rew", 33), ("cost", 17), ("name", 39)])
def test_the_same_weights_and_the_same_error_after_the_same_collect(fault):
    weights, error = train(*fault)
    undo = incremental_nan_check()
    try:
        fixed_weights, fixed_error = train(*fault)
    finally:
        undo()
    assert torch.equal(weights, fixed_weights) and error == fixed_error
    assert (error is None) == (fault == NO_FAULT)


def test_only_what_was_written_is_read(fixed, monkeypatch):
    lengths, original = [], ReplayBuffer.__getitem__

    def counting(self, index):
        if isinstance(index, slice):
            lengths.append(len(self))
        return original(self, index)

    counting.__module__ = original.__module__
    monkeypatch.setattr(ReplayBuffer, "__getitem__", counting)
    train()
    assert lengths == [1]  # the first check, of a buffer whose state is not known yet


def test_outside_of_a_trainer_hasnull_reads_everything(fixed):
    buffer = ReplayBuffer(STORED)
    train(buffer=buffer)
    buffer.rew[3] = np.nan
    assert buffer.hasnull()


def test_it_can_be_switched_off_and_a_second_call_changes_nothing():
    before = ReplayBuffer.add, ReplayBuffer.hasnull, VectorReplayBuffer.add
    incremental_nan_check()
    assert incremental_nan_check() is incremental_nan_check()
    undo = incremental_nan_check()
    undo(), undo()
    assert (ReplayBuffer.add, ReplayBuffer.hasnull, VectorReplayBuffer.add) == before


def test_a_buffer_of_your_own_class_is_read_whole_and_a_warning_names_it(fixed):
    class Own(ReplayBuffer):
        def add(self, batch, buffer_ids=None):
            added = super().add(batch, buffer_ids)
            self.rew[added[0]] = np.nan if len(self) == 9 else 0
            return added

    with pytest.warns(UserWarning, match="Own, which has its own add"):
        _, error = train(buffer=Own(STORED))
    assert "NaNs in buffer after 8 steps" in error


def test_tianshous_own_buffers_give_no_warning(fixed):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "incremental_nan_check")
        train(buffer=VectorReplayBuffer(STORED, 1))


def test_a_tianshou_without_one_of_the_methods_is_named_and_stays_as_it_is(monkeypatch):
    monkeypatch.delattr(OnlineTrainer, "_collect_training_data")
    add = ReplayBuffer.add
    for _ in range(2):
        with pytest.raises(ImportError, match=r"has no OnlineTrainer\._collect_training_data"):
            incremental_nan_check()
    assert ReplayBuffer.add is add
