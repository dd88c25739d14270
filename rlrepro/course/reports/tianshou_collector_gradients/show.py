import sys

import gymnasium as gym
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.data import Collector
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor
from torch.autograd.graph import saved_tensors_hooks

env = gym.make("CartPole-v1")
net = Net(state_shape=env.observation_space.shape, hidden_sizes=(1024, 1024))
actor = DiscreteActor(preprocess_net=net, action_shape=env.action_space.n)
policy = DiscreteActorPolicy(actor=actor, action_space=env.action_space)
collector = Collector(policy, env)
collector.reset()

saved = []  # the bytes of each tensor that autograd keeps for a backward pass
with saved_tensors_hooks(lambda tensor: saved.append(tensor.nbytes) or tensor, lambda tensor: tensor):
    collector.collect(n_step=10)
print(f"10 steps were collected, and {sum(saved):,} bytes were kept for a backward pass that never comes")
sys.exit(bool(saved))
