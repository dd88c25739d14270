"""tianshou 2.x algorithms whose `max_batchsize` bounds every forward pass outside the policy's gradient step.

Each takes the arguments of the class it stands for and gives the same results.
"""

import torch
from tianshou.algorithm import GAIL, PPO, ICMOnPolicyWrapper
from tianshou.data import Batch, to_numpy, to_torch_as

from .chunks import in_chunks


class ChunkedPPO(PPO):
    """PPO whose logp_old keeps the shape of the distribution's log-probabilities.

    tianshou from 1.1.0 on flattens it. For a distribution that is not `Independent`, and so gives (rows, d)
    log-probabilities, that raises an error in the update where d > 1, and where d = 1 silently turns the ratio of a
    minibatch of n rows into an (n, n) matrix.
    """

    def _preprocess_batch(self, batch, buffer, indices):
        if self.recompute_adv:
            self._buffer, self._indices = buffer, indices
        batch = self._add_returns_and_advantages(batch, buffer, indices)
        batch.act = to_torch_as(batch.act, batch.v_s)
        with torch.no_grad():
            batch.logp_old = in_chunks(self._log_prob, batch, size=self.max_batchsize)
        return batch

    def _log_prob(self, batch):
        return self.policy(batch).dist.log_prob(batch.act)  # (rows,) or (rows, d)


class ChunkedGAIL(GAIL):
    """GAIL whose discriminator sees at most `max_batchsize` rows at a time, for rewards and in its own update.

    In tianshou 2.0.1 it takes the whole rollout for the rewards and a `disc_update_num`-th of it in the update.
    """

    def disc(self, batch):
        return in_chunks(super().disc, batch, size=self.max_batchsize)


class ChunkedICMOnPolicyWrapper(ICMOnPolicyWrapper):
    """An intrinsic curiosity module that sees at most `max_batchsize` rows at a time.

    In tianshou 2.0.1 it takes the whole rollout, with gradients, and holds that graph through the update of the
    wrapped algorithm. Here only the observations are held, and activations are computed again, a chunk at a time.
    """

    def __init__(self, *, max_batchsize: int = 256, **options):
        super().__init__(**options)
        self.max_batchsize = max_batchsize

    def _icm_preprocess_batch(self, batch):
        inputs = batch.obs, batch.act, batch.obs_next
        mse_loss, act_hat = in_chunks(self.model, *inputs, size=self.max_batchsize)
        batch.policy = Batch(orig_rew=batch.rew, act_hat=act_hat, mse_loss=mse_loss)
        batch.rew = batch.rew + to_numpy(mse_loss * self.reward_scale)
