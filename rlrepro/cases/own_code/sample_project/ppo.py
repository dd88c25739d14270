"""PPO on CartPole."""

import gymnasium as gym
import torch
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import PPOPolicy
from tianshou.trainer import OnpolicyTrainer
from tianshou.utils.net.common import ActorCritic, Net
from tianshou.utils.net.discrete import Actor, Critic
from torch.distributions import Categorical

ENVS = 8
ROLLOUT = 2048  # timesteps


def train():
    torch.manual_seed(0)
    env = gym.make("CartPole-v1")
    hidden = Net(env.observation_space.shape, hidden_sizes=[256, 256])
    actor, critic = Actor(hidden, env.action_space.n), Critic(hidden)
    policy = PPOPolicy(
        actor=actor,
        critic=critic,
        optim=torch.optim.Adam(ActorCritic(actor, critic).parameters(), lr=3e-4),
        dist_fn=lambda probabilities: Categorical(probabilities),
        action_space=env.action_space,
        action_scaling=False,
    )
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS)
    OnpolicyTrainer(
        policy=policy,
        train_collector=Collector(policy, envs, VectorReplayBuffer(ROLLOUT, ENVS)),
        test_collector=None,
        max_epoch=1,
        step_per_epoch=ROLLOUT,
        step_per_collect=ROLLOUT,
        repeat_per_collect=2,
        episode_per_test=0,
        batch_size=512,
        show_progress=False,
        verbose=False,
    ).run()


if __name__ == "__main__":
    train()
