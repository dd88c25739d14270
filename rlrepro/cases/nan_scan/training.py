"""SAC on vectors and DQN on stacked frames, as tianshou's examples set them up, for whichever tianshou is imported."""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rlrepro.cases.common.networks import FRAMES, NatureCNN
from rlrepro.cases.common.tianshou_ppo import is_version_2
from rlrepro.cases.nan_scan.buffers import ACTIONS, EPISODE, FEATURES, PARTS, filled_buffer

SPACES = {
    "SAC": (gym.spaces.Box(-np.inf, np.inf, (FEATURES,)), gym.spaces.Box(-1, 1, (ACTIONS,))),
    "DQN": (gym.spaces.Box(0, 255, FRAMES, np.uint8), gym.spaces.Discrete(6)),
}
KINDS = {"SAC": "vectors", "DQN": "frames"}
COLLECT = {"SAC": 1, "DQN": 10}  # environment steps, as in mujoco_sac.py and atari_dqn.py
PARTS_OF_A_TRANSITION = ("obs", "rew", "info")


class World(gym.Env):
    """Random observations. `bad` names a part of the transition that is NaN in step `bad_step`."""

    def __init__(self, algorithm: str, bad: str | None = None, bad_step: int = 0):
        self.observation_space, self.action_space = SPACES[algorithm]
        self.rng, self.steps, self.bad, self.bad_step = np.random.default_rng(0), 0, bad, bad_step

    def _obs(self):
        shape = self.observation_space.shape
        if self.observation_space.dtype == np.uint8:
            return self.rng.integers(0, 256, shape, np.uint8)
        return self.rng.standard_normal(shape)

    def reset(self, *, seed=None, options=None):
        return self._obs(), {"cost": 0.0}

    def step(self, action):
        self.steps += 1
        obs, reward, cost = self._obs(), float(np.sum(action)), 0.0
        if self.bad and self.steps == self.bad_step:
            obs[0] = np.nan if self.bad == "obs" else obs[0]
            reward, cost = (np.nan if self.bad == part else value for part, value in (("rew", reward), ("info", cost)))
        return obs, reward, self.steps % EPISODE == 0, False, {"cost": cost}


class Actor(nn.Module):
    max_action = 1.0  # required by 1.x

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.mean, self.scale = nn.Linear(256, ACTIONS), nn.Linear(256, ACTIONS)

    def forward(self, obs, state=None, info=None):
        hidden = self.body(torch.as_tensor(obs, dtype=torch.float32))
        return (self.mean(hidden), self.scale(hidden).clamp(-20, 2).exp()), state


class Critic(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(FEATURES + ACTIONS, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def forward(self, obs, act=None, info=None):
        return super().forward(torch.cat([torch.as_tensor(array, dtype=torch.float32) for array in (obs, act)], dim=1))


class FrameNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = NatureCNN(int(SPACES["DQN"][1].n))

    def forward(self, obs, state=None, info=None):
        return self.body(torch.as_tensor(obs, dtype=torch.float32) / 255), state


def make_algorithm(name: str):
    """The algorithm of 2.x, or the policy of 1.x, with seeded weights."""
    torch.manual_seed(0)
    _, actions = SPACES[name]
    if is_version_2():
        from tianshou.algorithm import DQN, SAC
        from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
        from tianshou.algorithm.modelfree.sac import SACPolicy
        from tianshou.algorithm.optim import AdamOptimizerFactory

        adam = AdamOptimizerFactory(lr=1e-3)
        if name == "SAC":
            policy = SACPolicy(actor=Actor(), action_space=actions)
            critics = {"critic": Critic(), "critic2": Critic()}
            return SAC(policy=policy, policy_optim=adam, critic_optim=adam, critic2_optim=adam, **critics)
        policy = DiscreteQLearningPolicy(model=FrameNetwork(), action_space=actions, eps_training=0.1)
        return DQN(policy=policy, optim=adam, n_step_return_horizon=3, target_update_freq=500)
    from tianshou.policy import DQNPolicy, SACPolicy

    def with_adam(network):
        return network, torch.optim.Adam(network.parameters(), lr=1e-3)

    if name == "SAC":
        names = ("actor", "actor_optim", "critic", "critic_optim", "critic2", "critic2_optim")
        networks = [part for network in (Actor(), Critic(), Critic()) for part in with_adam(network)]
        return SACPolicy(**dict(zip(names, networks, strict=True)), action_space=actions)
    model, optim = with_adam(FrameNetwork())
    policy = DQNPolicy(model=model, optim=optim, action_space=actions, estimation_step=3, target_update_freq=500)
    policy.set_eps(0.1)
    return policy


def make_trainer(
    name: str,
    stored: int,
    collects: int,
    on_collect: Callable[[int, int], None] = lambda epoch, step: None,
    bad: tuple = (),
    **options,
):
    """A trainer for `collects` collects, whose buffer already holds `stored` transitions, and its algorithm.

    `on_collect` is called before each collect. `bad` is `World`'s, `options` are the collector's.
    """
    from tianshou.data import Collector
    from tianshou.env import DummyVectorEnv

    np.random.seed(0)
    algorithm, envs = make_algorithm(name), PARTS if name == "DQN" else 1
    world = DummyVectorEnv([lambda: World(name, *bad) for _ in range(envs)])
    buffer = filled_buffer(KINDS[name], stored, stored + 100 * envs)
    collector = Collector(algorithm, world, buffer, exploration_noise=True, **options)
    collector.reset(reset_buffer=False)
    step, batch_size, updates = COLLECT[name], *((256, 1.0) if name == "SAC" else (32, 0.1))
    common = {"batch_size": batch_size, "show_progress": False}
    if is_version_2():
        from tianshou.trainer import OffPolicyTrainerParams

        params = OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=step * collects,
            collection_step_num_env_steps=step,
            update_step_num_gradient_steps_per_sample=updates,
            training_fn=on_collect,
            test_in_training=False,
            **common,
        )
        return algorithm.create_trainer(params), algorithm
    from tianshou.trainer import OffpolicyTrainer

    trainer = OffpolicyTrainer(
        policy=algorithm,
        train_collector=collector,
        max_epoch=1,
        step_per_epoch=step * collects,
        step_per_collect=step,
        update_per_step=updates,
        train_fn=on_collect,
        test_in_train=False,
        episode_per_test=1,  # required although nothing is tested
        **common,
    )
    return trainer, algorithm
