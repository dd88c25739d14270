import sys

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

buffer = ReplayBuffer(1000)
for step in np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32):
    parts = {"obs": step[:3], "obs_next": step[3:6], "act": step[6:], "rew": 0.0, "info": {}}
    buffer.add(Batch(**parts, terminated=False, truncated=False))
actor = ContinuousActorProbabilistic(preprocess_net=Net(state_shape=3, hidden_sizes=(8,)), action_shape=2)
policy = ProbabilisticActorPolicy(
    actor=actor, dist_fn=lambda loc_scale: Independent(Normal(*loc_scale), 1), action_space=spaces.Box(-1, 1, (2,))
)
critic = ContinuousCritic(preprocess_net=Net(state_shape=3, hidden_sizes=(8,)))
disc = {"disc_net": torch.nn.Linear(5, 1), "disc_optim": AdamOptimizerFactory(), "expert_buffer": buffer}
gail = GAIL(policy=policy, critic=critic, optim=AdamOptimizerFactory(), max_batchsize=64, **disc)
sizes = []
gail.disc_net.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
batch, indices = buffer.sample(0)
gail._preprocess_batch(batch, buffer, indices)
print(f"max_batchsize is 64, and the discriminator got {max(sizes)} transitions at once")
sys.exit(max(sizes) >= 2 * 64)
