"""tianshou's algorithms on small networks, for tests of plans: one make(device="cpu") per algorithm."""

from functools import partial

import numpy as np
import torch
from gymnasium import spaces

OBS, BOX, CHOICE = spaces.Box(-1, 1, (17,), np.float32), spaces.Box(-1, 1, (6,), np.float32), spaces.Discrete(6)


def net(**options):
    from tianshou.utils.net.common import Net

    return Net(state_shape=OBS.shape, hidden_sizes=[64, 64], **options)


def optimizer():
    from tianshou.algorithm.optim import AdamOptimizerFactory

    return AdamOptimizerFactory(lr=1e-3)


def with_critics(cls, policy, critic):
    optimizers = {"policy_optim": optimizer(), "critic_optim": optimizer(), "critic2_optim": optimizer()}
    return cls(policy=policy, critic=critic(), critic2=critic(), **optimizers)


def continuous_critic():
    from tianshou.utils.net.continuous import ContinuousCritic

    return ContinuousCritic(preprocess_net=net(action_shape=BOX.shape, concat=True))


def dqn(device="cpu"):
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy

    policy = DiscreteQLearningPolicy(model=net(action_shape=6), action_space=CHOICE)
    return DQN(policy=policy, optim=optimizer(), target_update_freq=100).to(device)


def sac(device="cpu"):
    from tianshou.algorithm import SAC
    from tianshou.algorithm.modelfree.sac import SACPolicy
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic

    actor = ContinuousActorProbabilistic(preprocess_net=net(), action_shape=BOX.shape, unbounded=True)
    return with_critics(SAC, SACPolicy(actor=actor, action_space=BOX), continuous_critic).to(device)


def td3(device="cpu"):
    from tianshou.algorithm import TD3
    from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
    from tianshou.utils.net.continuous import ContinuousActorDeterministic

    actor = ContinuousActorDeterministic(preprocess_net=net(), action_shape=BOX.shape)
    return with_critics(TD3, ContinuousDeterministicPolicy(actor=actor, action_space=BOX), continuous_critic).to(device)


def discrete_sac(device="cpu"):
    from tianshou.algorithm import DiscreteSAC
    from tianshou.algorithm.modelfree.discrete_sac import DiscreteSACPolicy
    from tianshou.utils.net.discrete import DiscreteCritic

    policy = DiscreteSACPolicy(actor=discrete_actor(), action_space=CHOICE)
    return with_critics(DiscreteSAC, policy, lambda: DiscreteCritic(preprocess_net=net(), last_size=6)).to(device)


def discrete_actor():
    from tianshou.utils.net.discrete import DiscreteActor

    return DiscreteActor(preprocess_net=net(), action_shape=6, softmax_output=False)


def on_policy(name, device="cpu"):
    from tianshou import algorithm
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.utils.net.discrete import DiscreteCritic

    policy = ProbabilisticActorPolicy(
        actor=discrete_actor(),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=CHOICE,
        action_scaling=False,
    )
    critic = DiscreteCritic(preprocess_net=net())
    return getattr(algorithm, name)(policy=policy, critic=critic, optim=optimizer()).to(device)


ALGORITHMS = {  # name: make, action space, transitions in the buffer
    "DQN": (dqn, CHOICE, 20_000),
    "SAC": (sac, BOX, 20_000),
    "TD3": (td3, BOX, 20_000),
    "DiscreteSAC": (discrete_sac, CHOICE, 20_000),
    "A2C": (partial(on_policy, "A2C"), CHOICE, 256),
    "PPO": (partial(on_policy, "PPO"), CHOICE, 256),
}
