import sys

import gymnasium as gym
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, ReplayBuffer
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net


class CountingBuffer(ReplayBuffer):
    checked = 0  # transitions that were copied and searched for NaN

    def hasnull(self) -> bool:
        CountingBuffer.checked += len(self)
        return super().hasnull()


env = gym.make("CartPole-v1")
net = Net(state_shape=env.observation_space.shape, action_shape=env.action_space.n)
dqn = DQN(policy=DiscreteQLearningPolicy(model=net, action_space=env.action_space), optim=AdamOptimizerFactory())
collector = Collector(dqn, env, CountingBuffer(10_000))
collector.reset()
collector.collect(n_step=5_000, random=True)
sizes = {"max_epochs": 1, "epoch_num_steps": 100, "collection_step_num_env_steps": 1}
dqn.run_training(OffPolicyTrainerParams(training_collector=collector, **sizes))
print(f"100 transitions were collected, and {CountingBuffer.checked:,} were searched for NaN")
sys.exit(CountingBuffer.checked > 100)
