import sys

import numpy as np
import torch
from tianshou.algorithm.modelbased.icm import _ICMMixin
from tianshou.data import Batch
from tianshou.utils.net.discrete import IntrinsicCuriosityModule
from torch.autograd.graph import saved_tensors_hooks

feature_net = torch.nn.Sequential(torch.nn.Linear(4, 512), torch.nn.ReLU(), torch.nn.Linear(512, 32))
model = IntrinsicCuriosityModule(feature_net=feature_net, feature_dim=32, action_dim=2, hidden_sizes=(512,))
icm = _ICMMixin(model=model, optim=None, lr_scale=1.0, reward_scale=0.01, forward_loss_weight=0.2)
random = np.random.default_rng(0)
obs, obs_next = random.standard_normal((2, 4096, 4)).astype(np.float32)
rollout = Batch(obs=obs, obs_next=obs_next, act=random.integers(2, size=4096), rew=np.zeros(4096))

saved = []  # the bytes of each activation that autograd keeps for a backward pass
with saved_tensors_hooks(lambda tensor: saved.append(tensor.nbytes) or tensor, lambda tensor: tensor):
    icm._icm_preprocess_batch(rollout)
print(f"while the policy is updated, {sum(saved):,} bytes are held for the later update of the curiosity module")
sys.exit(sum(saved) > 10 * (obs.nbytes + obs_next.nbytes))
