"""ChunkedPPOPolicy in the tianshou that is installed, of any release before 2.0."""

import gymnasium as gym
import numpy as np
import pytest
import tianshou
import torch
from torch import nn
from torch.distributions import Categorical

if int(tianshou.__version__.split(".")[0]) >= 2:
    pytest.skip("for tianshou before 2.0", allow_module_level=True)

from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import PPOPolicy
from tianshou.trainer import OnpolicyTrainer

from .v1 import ChunkedPPOPolicy

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


def policy_of(cls):
    torch.manual_seed(0)
    actor, critic = Network(2), Network(1)
    return cls(
        actor=actor,
        critic=critic,
        optim=torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2),
        dist_fn=lambda logits: Categorical(logits=logits),
        action_space=gym.spaces.Discrete(2),
        action_scaling=False,
        max_batchsize=SIZE,
    )


def collected(policy):
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(2)])
    return Collector(policy, envs, VectorReplayBuffer(STEPS, 2))


def test_a_training_run_keeps_to_max_batchsize():
    policy = policy_of(ChunkedPPOPolicy)
    before = policy.actor.layers[0].weight.detach().clone()
    OnpolicyTrainer(
        policy=policy,
        train_collector=collected(policy),
        test_collector=None,
        max_epoch=2,
        step_per_epoch=STEPS,
        step_per_collect=STEPS,
        repeat_per_collect=2,
        episode_per_test=1,
        batch_size=50,
        verbose=False,
        show_progress=False,
    ).run()
    assert policy.actor.largest_batch == SIZE
    assert not torch.equal(policy.actor.layers[0].weight, before)


def test_logp_old_is_the_releases_own():
    plain, chunked = policy_of(PPOPolicy), policy_of(ChunkedPPOPolicy)
    collector = collected(plain)
    if hasattr(collector, "reset"):
        collector.reset()
    collector.collect(n_step=STEPS)
    batches = [
        policy.process_fn(*collector.buffer.sample(0)[:1], collector.buffer, collector.buffer.sample(0)[1])
        for policy in (plain, chunked)
    ]
    np.testing.assert_allclose(batches[1].logp_old.numpy(), batches[0].logp_old.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(batches[1].adv.numpy(), batches[0].adv.numpy(), atol=1e-5)
