import numpy as np
import torch
from gymnasium import spaces
from tianshou.algorithm import GAIL
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, ReplayBuffer
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from torch.distributions import Independent, Normal
from torch.nn.functional import logsigmoid

OBS_DIM, ACTION_DIM, MAX_BATCHSIZE = 4, 2, 8


def filled_buffer(size: int) -> ReplayBuffer:
    random = np.random.default_rng(size)
    buffer = ReplayBuffer(size)
    for _ in range(size):
        obs, obs_next = random.standard_normal((2, OBS_DIM), dtype=np.float32)
        act = random.standard_normal(ACTION_DIM, dtype=np.float32)
        ends = {"terminated": False, "truncated": False}
        buffer.add(Batch(obs=obs, obs_next=obs_next, act=act, rew=0.0, info={}, **ends))
    return buffer


def test_gail_rewards_respect_max_batchsize() -> None:
    actor_net, critic_net = (Net(state_shape=OBS_DIM, hidden_sizes=(8,)) for _ in range(2))
    algorithm: GAIL = GAIL(
        policy=ProbabilisticActorPolicy(
            actor=ContinuousActorProbabilistic(preprocess_net=actor_net, action_shape=ACTION_DIM),
            dist_fn=lambda loc_scale: Independent(Normal(*loc_scale), 1),
            action_space=spaces.Box(-1, 1, (ACTION_DIM,)),
        ),
        critic=ContinuousCritic(preprocess_net=critic_net),
        optim=AdamOptimizerFactory(),
        expert_buffer=filled_buffer(10),
        disc_net=torch.nn.Linear(OBS_DIM + ACTION_DIM, 1),
        disc_optim=AdamOptimizerFactory(),
        max_batchsize=MAX_BATCHSIZE,
    )
    buffer = filled_buffer(100)
    batch, indices = buffer.sample(0)
    with torch.no_grad():
        expected = -logsigmoid(-algorithm.disc(batch)).flatten()
    sizes: list[int] = []
    algorithm.disc_net.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))

    batch = algorithm._preprocess_batch(batch, buffer, indices)

    assert sum(sizes) == 100
    assert max(sizes) < 2 * MAX_BATCHSIZE, "`split` merges the last minibatch into the previous one"
    assert torch.allclose(torch.as_tensor(batch.rew), expected)
