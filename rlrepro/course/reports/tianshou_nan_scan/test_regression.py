import gymnasium as gym
import numpy as np
import pytest
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, ReplayBuffer
from tianshou.data.buffer.buffer_base import MalformedBufferError
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net


class NaNRewards(gym.RewardWrapper):
    def reward(self, reward: float) -> float:
        return np.nan


class CountingBuffer(ReplayBuffer):
    num_checks = 0

    def hasnull(self) -> bool:
        self.num_checks += 1
        return super().hasnull()


def train(env: gym.Env, **options: bool) -> CountingBuffer:
    net = Net(state_shape=env.observation_space.shape, action_shape=env.action_space.n, hidden_sizes=(8,))
    policy = DiscreteQLearningPolicy(model=net, action_space=env.action_space)
    algorithm: DQN = DQN(policy=policy, optim=AdamOptimizerFactory())
    buffer = CountingBuffer(100)
    params = OffPolicyTrainerParams(
        training_collector=Collector(algorithm, env, buffer, **options),
        max_epochs=1,
        epoch_num_steps=20,
        collection_step_num_env_steps=1,
    )
    algorithm.run_training(params)
    return buffer


def test_trainer_does_not_search_the_whole_buffer_by_default() -> None:
    assert train(gym.make("CartPole-v1")).num_checks == 0


def test_trainer_raises_on_nan_if_the_collector_is_configured_to() -> None:
    with pytest.raises(MalformedBufferError):
        train(NaNRewards(gym.make("CartPole-v1")), raise_on_nan_in_buffer=True)
