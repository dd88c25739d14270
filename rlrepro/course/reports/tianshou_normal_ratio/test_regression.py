import numpy as np
import pytest
import torch
from gymnasium import spaces
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, ReplayBuffer
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.torch_utils import policy_within_training_step
from torch.distributions import Distribution, Independent, Normal


def independent(loc_scale: tuple[torch.Tensor, torch.Tensor]) -> Distribution:
    return Independent(Normal(*loc_scale), 1)


def plain(loc_scale: tuple[torch.Tensor, torch.Tensor]) -> Distribution:
    return Normal(*loc_scale)


@pytest.mark.parametrize("action_dim", [1, 3])
@pytest.mark.parametrize("dist_fn", [independent, plain])
def test_logp_old_has_the_shape_of_log_prob(dist_fn, action_dim: int) -> None:
    actor_net, critic_net = Net(state_shape=4, hidden_sizes=(8,)), Net(state_shape=4, hidden_sizes=(8,))
    policy = ProbabilisticActorPolicy(
        actor=ContinuousActorProbabilistic(preprocess_net=actor_net, action_shape=(action_dim,)),
        dist_fn=dist_fn,
        action_space=spaces.Box(-1, 1, (action_dim,)),
    )
    critic = ContinuousCritic(preprocess_net=critic_net)
    algorithm: PPO = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(), max_batchsize=8)
    random = np.random.default_rng(0)
    buffer = ReplayBuffer(20)
    for step in range(20):
        buffer.add(
            Batch(
                obs=random.standard_normal(4, dtype=np.float32),
                obs_next=random.standard_normal(4, dtype=np.float32),
                act=random.standard_normal(action_dim, dtype=np.float32),
                rew=1.0,
                terminated=step % 10 == 9,
                truncated=False,
                info={},
            ),
        )
    batch, indices = buffer.sample(0)
    batch = algorithm._preprocess_batch(batch, buffer, indices)

    with torch.no_grad():
        log_prob = policy(batch).dist.log_prob(batch.act)
    assert batch.logp_old.shape == log_prob.shape
    assert torch.allclose(batch.logp_old, log_prob)
    with policy_within_training_step(policy):
        algorithm.update(buffer, batch_size=8, repeat=1)
