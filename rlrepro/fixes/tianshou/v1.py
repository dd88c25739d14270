"""The fix of logp_old for projects that stay on a tianshou release before 2.0."""

import torch

from .chunks import in_chunks

try:
    from tianshou.data import to_torch_as
    from tianshou.policy import PPOPolicy
except ImportError as error:
    raise ImportError(f"ChunkedPPOPolicy needs tianshou before 2.0; with 2.x, use ChunkedPPO: {error}") from error


class ChunkedPPOPolicy(PPOPolicy):
    """PPOPolicy that computes logp_old on at most `max_batchsize` transitions at a time.

    logp_old keeps the shape of the distribution's log-probabilities. The arguments are those of PPOPolicy.

    Tested with tianshou 0.5.1, 1.0.0, 1.1.0, 1.2.0.
    """

    def process_fn(self, batch, buffer, indices):
        if getattr(self, "recompute_adv", getattr(self, "_recompute_adv", False)):  # the name from 1.0.0 on, and before
            self._buffer, self._indices = buffer, indices
        size = getattr(self, "max_batchsize", None) or self._batch
        batch = self._compute_returns(batch, buffer, indices)
        batch.act = to_torch_as(batch.act, batch.v_s)
        with torch.no_grad():
            batch.logp_old = in_chunks(lambda part: self(part).dist.log_prob(part.act), batch, size=size)
        return batch
