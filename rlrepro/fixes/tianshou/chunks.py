"""in_chunks(fn, batch, size=64): evaluate a function on many rows with the memory of a few."""

import operator
from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint as run_checkpointed


def in_chunks(fn: Callable, *inputs, size: int, checkpoint: bool = True):
    """`fn(*inputs)` computed on at most `size` rows at a time. `fn` must treat each row independently, which
    BatchNorm in training mode does not.

    `inputs` are tensors, NumPy arrays or batches (anything with a length and slices) of equal length. `fn` returns a
    tensor with one row for each row of its inputs, or a tuple of such tensors. The result equals that of one call, up
    to rounding. No chunk is larger than `size`. An empty input is passed to `fn` unchanged, so its result has the right
    shape.

    If gradients are recorded, each chunk is checkpointed (torch.utils.checkpoint, after arXiv:1604.06174): its
    activations are dropped and computed again in the backward pass. Memory then stays bounded there too, at the cost
    of one more forward pass and about 5 KB per chunk for the state of the random number generator. Do not change `fn`'s
    weights, its mode (training or evaluation) or its inputs before the backward pass. `checkpoint=False` keeps the
    activations.

    Raises TypeError if an input has no rows (a dict) or a result is not a tensor, and ValueError if `size` is below 1,
    inputs have unequal lengths, or a result has a different number of rows.
    """
    if not inputs:
        raise ValueError("in_chunks needs at least one input to split into chunks")
    if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
        raise ValueError(f"size must be a whole number of rows, at least 1; found {size!r}")
    for argument in inputs:
        if isinstance(argument, dict) or not hasattr(argument, "__len__") or getattr(argument, "shape", None) == ():
            kind = f"{type(argument).__name__}{' without dimensions' if hasattr(argument, 'shape') else ''}"
            raise TypeError(f"inputs must be tensors, arrays or batches, to be split into rows; found {kind}")
    size, lengths = operator.index(size), [len(argument) for argument in inputs]
    if len(set(lengths)) > 1:
        raise ValueError(f"inputs must have the same number of rows, found {lengths}")
    rows = lengths[0]
    recompute = checkpoint and torch.is_grad_enabled()
    results = []
    for start in range(0, max(rows, 1), size):
        chunk = [argument[start : start + size] for argument in inputs]
        result = run_checkpointed(fn, *chunk, use_reentrant=False) if recompute else fn(*chunk)
        _check_rows(result, min(size, rows - start))
        results.append(result)
    if isinstance(results[0], tuple):
        return tuple(torch.cat(parts) for parts in zip(*results, strict=True))
    return torch.cat(results)


def _check_rows(result, rows):
    for tensor in result if isinstance(result, tuple) else (result,):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"fn must return a tensor or a tuple of tensors, found {type(tensor).__name__}")
        if tensor.dim() == 0 or len(tensor) != rows:
            raise ValueError(
                f"fn must return one row for each row of its inputs: for {rows} rows it returned a tensor of shape "
                f"{tuple(tensor.shape)}"
            )
