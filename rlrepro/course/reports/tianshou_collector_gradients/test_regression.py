import gymnasium as gym
import torch
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.data import Collector
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor


def test_collect_runs_policy_without_gradients() -> None:
    env = gym.make("CartPole-v1")
    net = Net(state_shape=env.observation_space.shape, hidden_sizes=(8,))
    actor = DiscreteActor(preprocess_net=net, action_shape=env.action_space.n)
    policy = DiscreteActorPolicy(actor=actor, action_space=env.action_space)
    grad_modes: list[bool] = []
    actor.register_forward_pre_hook(lambda *_: grad_modes.append(torch.is_grad_enabled()))

    collector = Collector(policy, DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2))
    collector.reset()
    collector.collect(n_step=10)

    assert grad_modes
    assert not any(grad_modes)
    assert torch.is_grad_enabled(), "collecting must not change the caller's grad mode"
