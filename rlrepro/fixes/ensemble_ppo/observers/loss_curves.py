"""Curves of the losses of an ensemble's members, as Stable-Baselines3 computes them."""

from collections.abc import Iterator

import numpy as np
import torch

PARTS = ("loss", "policy_gradient_loss", "value_loss", "entropy_loss", "approx_kl", "clip_fraction")


class LossCurves:
    """Keeps the parts of the losses of one update, with this many minibatches in each epoch."""

    def __init__(self, minibatches: int):
        self._minibatches, self._steps = minibatches, []

    def add(self, active: np.ndarray, *parts: torch.Tensor) -> None:
        """The parts (K,) of the losses on one minibatch, in the order of PARTS, and which members (K,) still learn."""
        self._steps.append((active.copy(), torch.stack(parts).detach()))

    def of_members(self) -> Iterator[dict[str, float]]:
        """For each member, the loss on its last minibatch, the divergence averaged over its last epoch, and the other
        parts averaged over the update, which may have ended early."""
        flags, steps = zip(*self._steps, strict=True)
        parts = dict(zip(PARTS, torch.stack(steps, 1).cpu().numpy(), strict=True))  # (steps, K) each
        for member, end in enumerate(np.sum(flags, axis=0)):
            start = {"loss": end - 1, "approx_kl": (end - 1) // self._minibatches * self._minibatches}
            yield {name: float(part[start.get(name, 0) : end, member].mean()) for name, part in parts.items()}
