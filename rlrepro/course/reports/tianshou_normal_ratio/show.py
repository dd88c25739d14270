import sys

import numpy as np
import torch
from gymnasium import spaces
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, ReplayBuffer
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from torch.distributions import Normal

networks = [Net(state_shape=4, hidden_sizes=(16,)) for _ in range(2)]
actor = ContinuousActorProbabilistic(preprocess_net=networks[0], action_shape=(1,))
action_space = spaces.Box(-1, 1, (1,))
policy = ProbabilisticActorPolicy(actor=actor, dist_fn=lambda loc_scale: Normal(*loc_scale), action_space=action_space)
ppo = PPO(policy=policy, critic=ContinuousCritic(preprocess_net=networks[1]), optim=AdamOptimizerFactory())
buffer = ReplayBuffer(32)
for step in np.random.default_rng(0).standard_normal((32, 9)).astype(np.float32):
    parts = {"obs": step[:4], "obs_next": step[4:8], "act": step[8:], "rew": 0.0, "terminated": False}
    buffer.add(Batch(**parts, truncated=False, info={}))
batch, indices = buffer.sample(0)
batch = ppo._preprocess_batch(batch, buffer, indices)
with torch.no_grad():  # as in the update; the policy is still the one that acted, so each ratio must be 1
    ratios = (policy(batch).dist.log_prob(batch.act) - batch.logp_old).exp()
print(f"{len(batch)} transitions have {ratios.numel()} ratios, up to {(ratios - 1).abs().max():.3g} away from 1")
sys.exit(ratios.numel() != len(batch))
