"""Rollouts of an ensemble, with Stable-Baselines3's returns and its order of transitions."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Rollout:
    """Each field is (K, N, ...): N = n_envs × n_steps transitions per member, one environment after the other."""

    observations: torch.Tensor
    actions: torch.Tensor
    values: torch.Tensor
    log_probs: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor

    def minibatches(self, orders: np.ndarray, size: int) -> Iterator["Rollout"]:
        """Each member's transitions in its own order (K, N), `size` at a time; the last minibatch may be smaller."""
        rows = torch.as_tensor(orders + np.arange(len(orders))[:, None] * orders.shape[1], device=self.values.device)
        fields = vars(self).values()
        columns = [field.float().reshape(rows.numel(), -1) for field in fields]
        table, widths = torch.cat(columns, dim=1), [column.shape[1] for column in columns]  # to gather all at once
        for idx in rows.split(size, dim=1):
            parts = table.index_select(0, idx.flatten()).split(widths, dim=1)
            yield Rollout(*(part.view(*idx.shape, *field.shape[2:]) for part, field in zip(parts, fields, strict=True)))


def advantages_of(rewards, values, starts, last_values, last_dones, gamma, gae_lambda) -> np.ndarray:
    """Generalized advantage estimation (Schulman et al. 2016), as in Stable-Baselines3's RolloutBuffer.

    rewards, values and starts (whether an episode begins at that step) are (T, ...). last_values, the values after the
    last step, and last_dones are (...); gamma and gae_lambda (float64) broadcast against these. Returns (T, ...).
    """
    decay, gamma = (gamma * gae_lambda).astype(np.float32), gamma.astype(np.float32)
    advantages, running = np.zeros_like(rewards), 0
    next_values, continues = last_values, 1 - last_dones.astype(np.float32)
    for step in reversed(range(len(rewards))):
        delta = rewards[step] + gamma * next_values * continues - values[step]
        running = delta + decay * continues * running
        advantages[step] = running
        next_values, continues = values[step], 1 - starts[step].astype(np.float32)
    return advantages
