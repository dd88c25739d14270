"""Rollouts of an ensemble, with Stable-Baselines3's returns and its order of rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Rollout:
    """Each field is (K, N, ...): N = n_envs × n_steps rows a member, those of an environment side by side."""

    observations: torch.Tensor
    actions: torch.Tensor
    values: torch.Tensor
    log_probs: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor

    def minibatches(self, orders: np.ndarray, size: int) -> Iterator["Rollout"]:
        """The rows of each member in its own order (K, N), `size` at a time; the last may be shorter."""
        members = torch.arange(len(orders), device=self.values.device).unsqueeze(1)
        orders = torch.as_tensor(orders, device=self.values.device)
        for first in range(0, orders.shape[1], size):
            rows = orders[:, first : first + size]
            yield Rollout(*(field[members, rows] for field in vars(self).values()))


def advantages_of(rewards, values, starts, last_values, last_dones, gamma: float, gae_lambda: float) -> np.ndarray:
    """Generalized advantage estimation (Schulman et al. 2016), as in Stable-Baselines3's RolloutBuffer.

    rewards, values and starts (whether an episode begins here) are (T, ...); last_values, of what follows the last
    step, and last_dones are (...). Returns (T, ...).
    """
    advantages, running = np.zeros_like(rewards), 0
    next_values, goes_on = last_values, 1 - last_dones.astype(np.float32)
    for step in reversed(range(len(rewards))):
        delta = rewards[step] + gamma * next_values * goes_on - values[step]
        running = delta + gamma * gae_lambda * goes_on * running
        advantages[step] = running
        next_values, goes_on = values[step], 1 - starts[step].astype(np.float32)
    return advantages
