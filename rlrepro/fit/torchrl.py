"""The stages of PPO as TorchRL's tutorials write it: its GAE and ClipPPOLoss on tensors that take no memory."""

from unittest.mock import patch

import numpy as np
import torch

from rlrepro.fit.dry_run import DryRun


class TorchRLStages:
    """`collect`, `preprocess` and `learn` return the peak of live bytes on the GPU while that stage runs. The rollout,
    a TensorDict, stays on the GPU, and minibatches are indexed from it."""

    takes_max_batchsize = False
    joins_remainder = False  # a short remainder is a minibatch of its own

    def __init__(self, run, actor, critic, obs_space, act_space, optimizer, dtype):
        from torchrl.objectives import ClipPPOLoss
        from torchrl.objectives.value import GAE

        self.obs_space, self.run = obs_space, run
        self.obs_keys = list(dict.fromkeys((*actor.in_keys, *critic.in_keys)))
        self.actor, critic = run.copy([actor, critic], dtype)
        with run:
            self.loss = ClipPPOLoss(self.actor, critic)
            # vmap has no rule for recurrent layers.
            is_recurrent = any(isinstance(module, torch.nn.RNNBase) for module in critic.modules())
            self.gae = GAE(gamma=0.99, lmbda=0.95, value_network=critic, deactivate_vmap=is_recurrent)
            self.optimizer = optimizer(self.loss.parameters(), lr=1e-3)
        self.update(2, 2)  # the first step creates the optimizer's state

    def update(self, rollout: int, batch_size: int) -> None:
        """Run a whole update."""
        with self.run:
            data = self._rollout(rollout)
            self._advantage(data)
            self._learn(data, batch_size)

    def collect(self, envs: int) -> np.ndarray:
        """One step of the policy in `envs` environments."""
        with self.run, torch.no_grad():
            return self.run.peak_of(lambda: self.actor(self._observations(envs)))[0]

    def preprocess(self, rollout: int, _=None) -> np.ndarray:
        """Values of all observations and next observations in one forward pass, and advantages."""
        with self.run:
            data = self._rollout(rollout)
            return self.run.peak_of(lambda: self._advantage(data))[0]

    def learn(self, rollout: int, batch_size: int) -> np.ndarray:
        """The gradient steps: three minibatches and the remainder. Further minibatches add nothing."""
        with self.run:
            data = self._rollout(rollout)
            self._advantage(data)
            rows = min(rollout, 3 * batch_size + rollout % batch_size)
            return self.run.peak_of(lambda: self._learn(data, batch_size, rows))[0]

    def _observations(self, rows):
        from tensordict import TensorDict

        shape, dtype = (rows, *self.obs_space.shape), getattr(torch, self.obs_space.dtype.name)
        return TensorDict({key: torch.zeros(shape, dtype=dtype) for key in self.obs_keys}, [rows])

    def _rollout(self, rows):
        """What a collector returns: the outputs of the actor, rewards, and whether an episode ended."""
        with torch.no_grad():
            step = self.actor(self._observations(1))
        data = step.apply(lambda tensor: tensor.new_zeros((rows, *tensor.shape[1:])), batch_size=[rows])
        ends = {name: torch.zeros(rows, 1, dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        data["next"] = self._observations(rows).update({"reward": torch.zeros(rows, 1), **ends})
        return data

    def _advantage(self, data) -> None:
        with torch.no_grad():
            if isinstance(self.run, DryRun):
                with patch("torchrl.objectives.value.advantages.generalized_advantage_estimate", _blank_gae):
                    self.gae(data)
            else:
                self.gae(data)

    def _learn(self, data, batch_size: int, rows: int | None = None) -> None:
        for indices in torch.randperm(len(data))[:rows].split(batch_size):
            losses = self.loss(data[indices])
            sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


def _blank_gae(gamma, lmbda, state_value, next_state_value, reward, done, terminated, **_):
    """Replaces the recursion, which branches on the data and needs only a few numbers per transition: (advantage,
    target)."""
    return torch.zeros_like(state_value), torch.zeros_like(state_value)
