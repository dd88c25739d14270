"""The stages of Stable-Baselines3's PPO: its own code on tensors that take no memory."""

import copy

import numpy as np
import torch

from rlrepro.fit.zero_memory_tensors import BlankArray


class SB3Stages:
    """`collect` and `learn` return the peak of live bytes on the GPU while that stage runs. SB3 computes in
    each step of `collect` what other libraries compute between the two."""

    preprocess = None
    takes_max_batchsize = False
    joins_remainder = False  # a short remainder is a minibatch of its own

    def __init__(self, run, policy, obs_space, act_space, optimizer, dtype):
        from stable_baselines3 import PPO
        from stable_baselines3.common.logger import Logger

        self.obs_space, self.act_space, self.run = obs_space, act_space, run
        (policy,) = run.copy([_without_state(policy)], dtype)
        with run:
            policy.optimizer = optimizer(policy.parameters(), lr=1e-3)
            self.ppo = PPO(type(policy), None, n_epochs=1, _init_setup_model=False)
            self.ppo.set_logger(Logger(None, []))
            self.ppo.policy, self.ppo.device = policy, policy.device
            self.ppo.observation_space, self.ppo.action_space, self.ppo.n_envs = obs_space, act_space, 1
            self.ppo._setup_lr_schedule()
            self.ppo.clip_range = lambda _: 0.2
        self.update(2, 2)  # the first step creates the optimizer's state

    def update(self, rollout: int, batch_size: int) -> None:
        """Run a whole update."""
        self.ppo.batch_size, self.ppo.rollout_buffer = batch_size, self._buffer(rollout)
        with self.run:
            self.ppo.train()

    def collect(self, envs: int) -> np.ndarray:
        """One step of the policy in `envs` environments."""
        policy, obs = self.ppo.policy, BlankArray((envs, *self.obs_space.shape), self.obs_space.dtype)
        with self.run, torch.no_grad():
            policy.set_training_mode(False)
            return self.run.peak_of(lambda: policy(torch.as_tensor(obs)))[0]

    def learn(self, rollout: int, batch_size: int) -> np.ndarray:
        """The gradient steps: three minibatches and the remainder. Further minibatches add nothing, since the rollout
        stays in host memory."""
        rows = min(rollout, 3 * batch_size + rollout % batch_size)
        self.ppo.batch_size, self.ppo.rollout_buffer = batch_size, self._buffer(rows)
        with self.run:
            if rollout < 2 * batch_size:  # the last minibatch's distribution is still alive during the first
                self.ppo.train()
            return self.run.peak_of(self.ppo.train)[0]

    def _buffer(self, rows: int):
        """A full RolloutBuffer whose arrays take no memory, ready to be split into minibatches."""
        from stable_baselines3.common.buffers import RolloutBuffer

        buffer = RolloutBuffer(1, self.obs_space, self.act_space, self.ppo.policy.device)
        for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
            array = getattr(buffer, name)  # (steps, environments, ...)
            setattr(buffer, name, BlankArray((rows, *(array.shape[2:] or (1,))), array.dtype))
        buffer.buffer_size, buffer.full, buffer.generator_ready = rows, True, True
        return buffer


def _without_state(policy):
    """The policy without earlier state that can't be copied: its optimizer, and what its distribution holds from the
    last minibatch."""
    policy, action_dist = copy.copy(policy), copy.copy(policy.action_dist)
    for name, value in vars(action_dist).items():
        if isinstance(value, torch.Tensor):
            setattr(action_dist, name, value.detach())
        elif isinstance(value, torch.distributions.Distribution):
            setattr(action_dist, name, None)
    policy.optimizer, policy.action_dist = None, action_dist
    return policy
