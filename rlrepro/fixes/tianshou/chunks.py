"""in_chunks(fn, batch, size=64): evaluate a function of many rows without holding them all at once."""

import operator
from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint as run_checkpointed


def in_chunks(fn: Callable, *inputs, size: int, checkpoint: bool = True):
    """`fn(*inputs)` computed on at most `size` rows at a time, for an `fn` that treats each row on its own
    (a BatchNorm in training mode does not).

    `inputs` are tensors, NumPy arrays or batches (anything with a length and slices) of equal length; `fn` returns a
    tensor with one row for each row it is given, or a tuple of such tensors. The result is as of one call, up to
    rounding: chunks are cut at `size` exactly, so that no chunk is larger, and an empty input is handed to `fn` as it
    is, so that its result has the right shape.

    Where gradients are recorded, each chunk is checkpointed (torch.utils.checkpoint, after arXiv:1604.06174): its
    activations are dropped and computed again in the backward pass, so that memory stays bounded there too, for one
    more forward pass and some 5 KB a chunk for the state of the random generator. Until then `fn`'s weights, mode
    (training or not) and inputs must stay as they are. `checkpoint=False` keeps the activations.

    Raises TypeError for an input without rows (a dict) and a result that is no tensor, ValueError for a size below 1,
    for inputs of unequal length and for a result of another number of rows.
    """
    if not inputs:
        raise ValueError("in_chunks needs at least one input to cut into chunks")
    if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
        raise ValueError(f"size must be a whole number of rows, at least 1; found {size!r}")
    for each in inputs:
        if isinstance(each, dict) or not hasattr(each, "__len__") or getattr(each, "shape", None) == ():
            found = f"{type(each).__name__}{' of no dimension' if hasattr(each, 'shape') else ''}"
            raise TypeError(f"inputs must be tensors, arrays or batches, to be cut along rows; found {found}")
    size, lengths = operator.index(size), [len(each) for each in inputs]
    if len(set(lengths)) > 1:
        raise ValueError(f"inputs must have the same number of rows, found {lengths}")
    rows = lengths[0]
    again = checkpoint and torch.is_grad_enabled()
    results = []
    for start in range(0, max(rows, 1), size):
        chunk = [each[start : start + size] for each in inputs]
        result = run_checkpointed(fn, *chunk, use_reentrant=False) if again else fn(*chunk)
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
                f"fn must return one row for each row it is given: for {rows} rows it returned a tensor of shape "
                f"{tuple(tensor.shape)}"
            )
