"""ChunkedPPO in the tianshou 2.x that is installed."""

import gymnasium as gym
import pytest
import tianshou
import torch
from torch import nn
from torch.distributions import Categorical

if int(tianshou.__version__.split(".")[0]) < 2:
    pytest.skip("for tianshou 2.x", allow_module_level=True)

from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams

from .v2 import ChunkedPPO

SIZE, STEPS = 64, 300  # max_batchsize, and the transitions of a rollout


class Network(nn.Module):
    def __init__(self, outputs: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, outputs))
        self.largest_batch = 0  # without gradients

    def forward(self, obs, state=None, info=None):
        if not torch.is_grad_enabled():
            self.largest_batch = max(self.largest_batch, len(obs))
        values = self.layers(torch.as_tensor(obs, dtype=torch.float32))
        return values if values.shape[1] == 1 else (values, state)


def algorithm_of(cls):
    torch.manual_seed(0)
    policy = ProbabilisticActorPolicy(
        actor=Network(2),
        dist_fn=lambda logits: Categorical(logits=logits),
        action_space=gym.spaces.Discrete(2),
        action_scaling=False,
    )
    return cls(policy=policy, critic=Network(1), optim=AdamOptimizerFactory(lr=1e-2), max_batchsize=SIZE)


def collector_of(algorithm):
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(2)])
    return Collector(algorithm, envs, VectorReplayBuffer(STEPS, 2))


def test_a_training_run_keeps_to_max_batchsize():
    algorithm = algorithm_of(ChunkedPPO)
    before = algorithm.policy.actor.layers[0].weight.detach().clone()
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector_of(algorithm),
            max_epochs=2,
            epoch_num_steps=STEPS,
            collection_step_num_env_steps=STEPS,
            update_step_num_repetitions=2,
            batch_size=50,
            verbose=False,
            show_progress=False,
        )
    )
    assert algorithm.policy.actor.largest_batch == SIZE >= algorithm.critic.largest_batch
    assert not torch.equal(algorithm.policy.actor.layers[0].weight, before)


def test_logp_old_and_advantages_are_the_releases_own():
    plain, chunked = algorithm_of(PPO), algorithm_of(ChunkedPPO)
    collector = collector_of(plain)
    collector.reset()
    collector.collect(n_step=STEPS)
    batch, indices = collector.buffer.sample(0)
    batches = [algorithm._preprocess_batch(Batch(batch), collector.buffer, indices) for algorithm in (plain, chunked)]
    torch.testing.assert_close(batches[1].logp_old, batches[0].logp_old.detach())
    torch.testing.assert_close(batches[1].adv, batches[0].adv)
