"""ChunkedGAE: RLlib's connector for advantages, with few timesteps at a time for the value networks."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI


class ChunkedGAE(GeneralAdvantageEstimation):
    """GeneralAdvantageEstimation that calls `compute_values` without gradients, on at most `size` timesteps at a time.

    The released connector calls it once, on the whole train batch and with gradients, and keeps the graph of every
    module until it returns. The advantages and value targets are the same, up to the rounding of other batch sizes (and
    of an LSTM's kernel without gradients), for networks that treat samples independently (BatchNorm in training mode
    does not). A recurrent module gets whole sequences, and at least one.

    Args:
        gamma, lambda_: as for GeneralAdvantageEstimation.
        size: timesteps of a chunk; None for all at once. Raises ValueError below 1.
    """

    def __init__(
        self, input_observation_space=None, input_action_space=None, *, gamma: float, lambda_: float, size: int | None
    ):
        if size is not None and not size >= 1:
            raise ValueError(f"size must be a number of timesteps, at least 1, or None; found {size!r}")
        super().__init__(input_observation_space, input_action_space, gamma=gamma, lambda_=lambda_)
        self.size = size

    def __call__(self, *, rl_module, batch, **context):
        with torch.no_grad(), _values_in_chunks(rl_module, self.size):
            return super().__call__(rl_module=rl_module, batch=batch, **context)

    def get_ctor_args_and_kwargs(self):
        args, kwargs = super().get_ctor_args_and_kwargs()
        return args, {**kwargs, "size": self.size}


@contextmanager
def _values_in_chunks(rl_module, size: int | None) -> Iterator[None]:
    """Within this context, `compute_values` of each module (unwrapped from DDP) works in chunks."""
    modules = [m for m in rl_module.foreach_module(lambda _, m: m) if isinstance(m, ValueFunctionAPI)]
    originals = [(module, module.compute_values, vars(module).get("compute_values")) for module in modules]
    for module, compute_values, _ in originals:
        module.compute_values = _chunked(compute_values, size)
    try:
        yield
    finally:
        for module, _, override in originals:
            del module.compute_values
            if override is not None:
                module.compute_values = override


def _chunked(compute_values, size: int | None):
    def in_chunks(batch, embeddings=None):
        if Columns.REWARDS not in batch:  # a later release bootstraps with one timestep per episode
            return compute_values(batch, embeddings)
        rows, *time = batch[Columns.REWARDS].shape  # (B,), or (B, T) of zero-padded sequences
        step = rows if size is None else max(1, size // math.prod(time))
        parts = [slice(start, start + step) for start in range(0, rows, step)]
        return torch.cat([compute_values(_rows(batch, part), _rows(embeddings, part)) for part in parts])

    return in_chunks


def _rows(column, part: slice):
    """These rows of a column, whose space may be a Dict or a Tuple."""
    if column is None:
        return None
    if isinstance(column, dict):
        return {key: _rows(value, part) for key, value in column.items()}
    if isinstance(column, tuple):
        return tuple(_rows(value, part) for value in column)
    return column[part]
