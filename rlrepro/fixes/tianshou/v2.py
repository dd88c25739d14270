"""tianshou 2.x algorithms whose `max_batchsize` bounds every forward pass outside the policy's gradient step.

Each takes the arguments of the class that it replaces and, apart from bugs that are fixed, gives the same results.
"""

import torch

from .chunks import in_chunks

try:
    from tianshou.algorithm import GAIL, PPO, ICMOnPolicyWrapper
    from tianshou.data import Batch, to_numpy, to_torch_as
except ImportError as error:
    raise ImportError(f"this fix needs tianshou 2.x; before 2.0, use ChunkedPPOPolicy: {error}") from error


class ChunkedPPO(PPO):
    """PPO that never exceeds `max_batchsize`, and whose logp_old keeps the shape of the log-probabilities.

    From 1.1.0 on, tianshou makes chunks of up to 2 * max_batchsize - 1 transitions, and flattens logp_old. If a
    distribution's log-probabilities have the shape (transitions, d), the update then raises an error for d > 1, and for
    d = 1 silently turns the ratio of a minibatch of n transitions into an (n, n) matrix.

    Tested with tianshou 2.0.0, 2.0.1.
    """

    def _add_returns_and_advantages(self, batch, buffer, indices):
        size = self.max_batchsize
        self.max_batchsize = (size + 1) // 2  # upstream's split then makes chunks of up to `size`
        try:
            return super()._add_returns_and_advantages(batch, buffer, indices)
        finally:
            self.max_batchsize = size

    def _preprocess_batch(self, batch, buffer, indices):
        if self.recompute_adv:
            self._buffer, self._indices = buffer, indices
        batch = self._add_returns_and_advantages(batch, buffer, indices)
        batch.act = to_torch_as(batch.act, batch.v_s)
        with torch.no_grad():
            batch.logp_old = in_chunks(self._log_prob, batch, size=self.max_batchsize)
        return batch

    def _log_prob(self, batch):
        return self.policy(batch).dist.log_prob(batch.act)  # (transitions,) or (transitions, d)


class ChunkedGAIL(GAIL, ChunkedPPO):
    """GAIL whose discriminator gets at most `max_batchsize` transitions at a time, for rewards and in its own update.

    In tianshou 2.0.1 it gets the whole rollout for the rewards, and 1 / `disc_update_num` of it in each update step.
    """

    def disc(self, batch):
        return in_chunks(super().disc, batch, size=self.max_batchsize)


class ChunkedICMOnPolicyWrapper(ICMOnPolicyWrapper):
    """An intrinsic curiosity module that gets at most `max_batchsize` transitions at a time.

    In tianshou 2.0.1 it gets the whole rollout, with gradients, and holds that graph through the update of the wrapped
    algorithm. Here only the observations are held, and activations are computed again, a chunk at a time, unless the
    module shares weights or buffers with the wrapped algorithm, whose update changes them: then the graph is held. The
    original rewards are stored separately; 2.0.1 adds the curiosity to them in place before it restores them.
    """

    def __init__(self, *, max_batchsize: int = 256, **options):
        super().__init__(**options)
        self.max_batchsize = max_batchsize

    def _icm_preprocess_batch(self, batch):
        modes = _modes(self.model)  # the update switches to training mode before activations are recomputed

        def model(*inputs):
            current = _modes(self.model)
            _set_modes(modes)
            try:
                return self.model(*inputs)
            finally:
                _set_modes(current)

        changing = {id(tensor) for tensor in _tensors(self.wrapped_algorithm)}  # before the recomputation
        is_shared = any(id(tensor) in changing for tensor in _tensors(self.model))
        mse_loss, act_hat = in_chunks(
            model, batch.obs, batch.act, batch.obs_next, size=self.max_batchsize, checkpoint=not is_shared
        )
        batch.policy = Batch(orig_rew=batch.rew, act_hat=act_hat, mse_loss=mse_loss)
        batch.rew = batch.rew + to_numpy(mse_loss * self.reward_scale)


def _tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _modes(module: torch.nn.Module) -> dict[torch.nn.Module, bool]:
    """Whether each part of a module is in training mode."""
    return {part: part.training for part in module.modules()}


def _set_modes(modes: dict[torch.nn.Module, bool]) -> None:
    for part, is_training in modes.items():
        part.training = is_training
