"""SAC on Pendulum, which goes on from recorded transitions."""

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import SAC
from tianshou.algorithm.modelfree.sac import SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, ReplayBuffer
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic

RECORDED = 300_000  # transitions
STEPS = 50


def recorded_transitions(count):
    rng, zeros = np.random.default_rng(0), np.zeros(count, bool)
    obs = rng.standard_normal((count + 1, 3)).astype(np.float32)
    act = rng.uniform(-2, 2, (count, 1)).astype(np.float32)
    return ReplayBuffer.from_data(obs[:-1], act, rng.standard_normal(count), zeros, zeros, zeros, obs[1:])


def make_network(**options):
    return Net(state_shape=3, hidden_sizes=[64, 64], **options)


def make_critic():
    return ContinuousCritic(preprocess_net=make_network(action_shape=1, concat=True))


def train():
    torch.manual_seed(0)
    env = gym.make("Pendulum-v1")
    adam = AdamOptimizerFactory(lr=1e-3)
    actor = ContinuousActorProbabilistic(
        preprocess_net=make_network(), action_shape=1, max_action=2.0, unbounded=True, conditioned_sigma=True
    )
    algorithm = SAC(
        policy=SACPolicy(actor=actor, action_space=env.action_space),
        policy_optim=adam,
        critic=make_critic(),
        critic_optim=adam,
        critic2=make_critic(),
        critic2_optim=adam,
    )
    buffer = ReplayBuffer(size=1_000_000)
    buffer.update(recorded_transitions(RECORDED))
    collector = Collector(algorithm, env, buffer, exploration_noise=True)
    collector.reset(reset_buffer=False)
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=STEPS,
            collection_step_num_env_steps=1,
            update_step_num_gradient_steps_per_sample=1.0,
            batch_size=256,
            test_in_training=False,
            show_progress=False,
        )
    )


if __name__ == "__main__":
    train()
