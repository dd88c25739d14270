"""The stages of an update of PPO or A2C in tianshou 2.x: its own code on tensors that take no memory."""

from functools import cache
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch
from gymnasium import spaces
from torch.distributions import Categorical, Independent, Normal

from rlrepro.fit.dry_run import DryRun
from rlrepro.fit.zero_memory_tensors import BlankArray

MANY_CHUNKS = 4  # beyond these, memory is extrapolated: further chunks do nothing new


class TianshouStages:
    """`collect`, `preprocess` and `learn` return the peak of live bytes on the GPU while that stage runs."""

    joins_remainder = True  # Batch.split(merge_last=True)
    takes_max_batchsize = True

    def __init__(self, run, algorithm, actor, critic, obs_space, act_space, optimizer, dtype, dist_fn):
        from tianshou import algorithm as library
        from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
        from tianshou.algorithm.optim import TorchOptimizerFactory

        self.obs_space, self.act_space, self.run = obs_space, act_space, run
        actor, critic = run.copy([actor, critic], dtype)
        with run, patch.object(ProbabilisticActorPolicy, "_compile", create=True):  # Numba's compiler takes seconds
            policy = ProbabilisticActorPolicy(
                actor=actor,
                dist_fn=dist_fn or default_distribution(act_space),
                action_space=act_space,
                action_scaling=False,
            )
            self.algorithm = getattr(library, algorithm)(
                policy=policy, critic=critic, optim=TorchOptimizerFactory(optimizer, lr=1e-3)
            )
            self.algorithm.compute_episodic_return = _blank_returns
            self.algorithm.train()  # as in its update
        self.update(2, 2)  # the first step creates the optimizer's state
        if isinstance(run, DryRun):
            for net in (actor, critic):
                run.cache(net, "forward", unless=torch.is_grad_enabled)
            run.cache(self.algorithm.optim._optim, "step")
        self._peak_of_chunks, self._peak_of_learning = cache(self._peak_of_chunks), cache(self._peak_of_learning)
        self._bytes_per_transition = cache(self._bytes_per_transition)

    def update(self, rollout: int, batch_size: int) -> None:
        """Run a whole update."""
        self.algorithm.max_batchsize = rollout
        with self.run:
            self._learn(self._preprocess(rollout), batch_size)

    def collect(self, envs: int) -> np.ndarray:
        """One step of the policy in `envs` environments, as tianshou's Collector takes it: with gradients."""
        policy = self.algorithm.policy
        with self.run:
            policy.eval()
            peak, _ = self.run.peak_of(lambda: policy(self._batch(envs)).act)
            policy.train()
        return peak

    def preprocess(self, rollout: int, max_batchsize: int) -> np.ndarray:
        """Returns, advantages and logp_old of a rollout."""
        chunks, remainder = divmod(rollout, max_batchsize)
        if chunks <= 2 * MANY_CHUNKS:
            return self._peak_of_chunks(chunks, remainder, max_batchsize)
        # The peak is in a forward pass, or where results are concatenated, which grows faster with the rollout.
        extra_chunks = chunks - MANY_CHUNKS
        peaks = []
        for free in (False, True):
            growth = self._growth_per_chunk(max_batchsize, free)
            peaks.append(self._peak_of_chunks(MANY_CHUNKS, remainder, max_batchsize, free) + growth * extra_chunks)
        return np.maximum(*peaks).round().astype(int)

    def learn(self, rollout: int, batch_size: int) -> np.ndarray:
        """The gradient steps. The last minibatch is the largest, and one before it represents all others. Each further
        transition of the rollout adds the bytes that are kept for it."""
        traced_rows = min(rollout, 2 * batch_size + rollout % batch_size)
        extra_bytes = round(self._bytes_per_transition() * (rollout - traced_rows)) if rollout > traced_rows else 0
        return self._peak_of_learning(traced_rows, batch_size) + extra_bytes

    def _peak_of_chunks(self, chunks: int, remainder: int, max_batchsize: int, free: bool = False) -> np.ndarray:
        """Peak of preprocessing that many chunks and a remainder. With `free`, forward passes are not counted."""
        self.algorithm.max_batchsize = max_batchsize
        if free:
            self._peak_of_chunks(chunks, remainder, max_batchsize)  # so that every forward pass is cached
        with self.run, patch.object(self.run, "calls_are_free", free):
            return self.run.peak_of(lambda: self._preprocess(chunks * max_batchsize + remainder))[0]

    def _growth_per_chunk(self, max_batchsize: int, free: bool) -> np.ndarray:
        small, large = (self._peak_of_chunks(count, 0, max_batchsize, free) for count in (MANY_CHUNKS, 2 * MANY_CHUNKS))
        return (large - small) / MANY_CHUNKS

    def _peak_of_learning(self, rows: int, batch_size: int) -> np.ndarray:
        self.algorithm.max_batchsize = rows
        with self.run:
            batch = self._preprocess(rows)
            return self.run.peak_of(lambda: self._learn(batch, batch_size))[0]

    def _bytes_per_transition(self) -> float:
        """Bytes of the rollout's tensors, which live from preprocessing until the update is over."""
        rollout_bytes = []
        self.algorithm.max_batchsize = 1024
        with self.run:
            for rollout in (1024, 2048):
                before = self.run.count.live_bytes
                batch = self._preprocess(rollout)
                rollout_bytes.append(self.run.count.live_bytes - before)
                del batch
        return (rollout_bytes[1] - rollout_bytes[0]) / 1024

    def _batch(self, rows: int):
        from tianshou.data import Batch

        blank = {name: BlankArray((rows,), bool) for name in ("terminated", "truncated", "done")}
        obs = BlankArray((rows, *self.obs_space.shape), self.obs_space.dtype)
        act = BlankArray((rows, *self.act_space.shape), self.act_space.dtype)
        return Batch(obs=obs, obs_next=obs, act=act, rew=BlankArray((rows,), np.float64), info=Batch(), **blank)

    def _preprocess(self, rows: int):
        buffer = SimpleNamespace()  # only compute_episodic_return would read it
        return self.algorithm._preprocess_batch(self._batch(rows), buffer, np.arange(rows))

    def _learn(self, batch, batch_size: int) -> None:
        self.algorithm._update_with_batch(batch, batch_size, 1)


def default_distribution(act_space: spaces.Space):
    """What tianshou's examples use: a Categorical of logits, or an independent Normal of mean and scale."""
    if isinstance(act_space, spaces.Discrete):
        return lambda logits: Categorical(logits=logits)
    return lambda mean_and_scale: Independent(Normal(*mean_and_scale), 1)


def _blank_returns(batch, *_, **__):
    """Replaces GAE, which works on NumPy arrays in host memory: (returns, advantages)."""
    return BlankArray((len(batch),), np.float64), BlankArray((len(batch),), np.float64)
