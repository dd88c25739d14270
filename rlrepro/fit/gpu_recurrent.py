"""Recurrent layers as cuDNN runs them on a GPU: one operator for all steps, with a reserve for the backward pass.

cuDNN does not publish how much its recurrent layers need. It was measured on a GPU by `measure_recurrent`; in these
measurements it is linear in the sizes, so that least squares predicts it for other sizes. Autocast always chooses
float16 for cuDNN's layers (aten/src/ATen/cudnn/AutocastRNN.cpp).
"""

import json
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import _VF

MEASURED = Path(__file__).with_name("cudnn_recurrent.json")
KINDS = {"rnn_tanh": "RNN", "rnn_relu": "RNN", "gru": "GRU", "lstm": "LSTM"}
INPUTS = 4  # numbers in a step of the measured sequences
MIB, LARGE = 2**20, 16 * 2**20  # of fewer bytes, much is what the allocator rounds up
WEIGHTS = (2, 4)  # of a layer, without and with biases; others have a projection


@contextmanager
def recurrent_on_gpu(needs: Callable, holds: Callable):
    """In this context, recurrent layers are planned as cuDNN runs them. `needs(size, workspace)` is called with the
    bytes that a pass needs on top of its results, and with those of the block that each pass allocates among them.
    `holds(tensors)` is whether the GPU has any of them. Packed sequences, and layers in host memory or without cuDNN,
    are left as they are."""

    def call(name, original, sequence, states, *others):
        is_packed = isinstance(states, torch.Tensor) and not states.is_floating_point()
        if is_packed or not torch.backends.cudnn.enabled or not holds(sequence):
            return original(sequence, states, *others)
        return _call(needs, name, original, sequence, states, *others)

    for_kind = {name: patch.object(_VF, name, partial(call, name, getattr(_VF, name))) for name in KINDS}
    for replacement in for_kind.values():
        replacement.start()
    try:
        yield
    finally:
        for replacement in for_kind.values():
            replacement.stop()


def _call(needs, name, original, sequence, states, weights, *options):
    _, layers, _, _, bidirectional, batch_first = options
    directions = 2 if bidirectional else 1
    if len(weights) // (layers * directions) not in WEIGHTS:
        return original(sequence, states, weights, *options)
    states = states if isinstance(states, tuple | list) else [states]
    tensors = [sequence, *states, *weights]
    if torch.is_autocast_enabled("cpu"):
        tensors = [tensor.half() for tensor in tensors]
    rows, steps = sequence.shape[:2] if batch_first else sequence.shape[1::-1]
    sizes = layers, states[0].shape[-1], steps, rows, sequence.shape[-1]
    predict = partial(predicted_bytes, KINDS[name], tensors[0].dtype, *sizes)
    workspace = directions * predict("training")

    def needed(column: str, results=(), copied: int = 0) -> None:
        needs(max(0, directions * predict(column) - _bytes(results)) + copied, workspace)

    output, *last = _Layer.apply(
        needed,
        directions * predict("reserve"),
        (steps, rows, directions * sizes[1]),
        batch_first,
        len(states),
        *tensors,
    )
    return output, *last


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, needs, reserve_bytes, shape, batch_first, states, sequence, *tensors):
        output = sequence.new_empty(shape)  # in memory, steps come first
        output = output.transpose(0, 1) if batch_first else output
        last = [torch.empty_like(state) for state in tensors[:states]]
        if any(ctx.needs_input_grad):
            reserve = sequence.new_empty(reserve_bytes, dtype=torch.uint8)
            ctx.save_for_backward(sequence, *tensors, output, reserve)
            needs("training")
        else:
            needs("inference")
        ctx.needs, ctx.batch_first = needs, batch_first
        return output, *last

    @staticmethod
    def backward(ctx, *gradients):
        sequence, *tensors = ctx.saved_tensors[:-2]
        wanted = zip([sequence, *tensors], ctx.needs_input_grad[5:], strict=True)
        results = [torch.empty_like(tensor) if is_wanted else None for tensor, is_wanted in wanted]
        gradient = gradients[0].transpose(0, 1) if ctx.batch_first else gradients[0]
        ctx.needs("backward", results, copied=0 if gradient.is_contiguous() else gradient.nbytes)
        return None, None, None, None, None, *results


def predicted_bytes(
    kind: str, dtype: torch.dtype, layers: int, hidden: int, steps: int, rows: int, inputs: int, column: str
) -> int:
    """What such a layer needs: "reserve" from its forward pass to its backward pass, or on top of its results in
    "training", in "inference" and, with its results, in "backward"."""
    one, two = (_coefficients(kind, dtype, count, column) for count in (1, 2))
    features = _features(hidden, steps, rows, dtype.itemsize, inputs)
    return max(0, round(float(features @ (one + (layers - 1) * (two - one)))))


@cache
def _coefficients(kind: str, dtype: torch.dtype, layers: int, column: str) -> np.ndarray:
    group = kind, str(dtype).removeprefix("torch."), layers
    measured = [row for row in _measured() if (row["kind"], row["dtype"], row["layers"]) == group]
    sizes = [(row["hidden"], row["steps"], row["rows"], dtype.itemsize, INPUTS) for row in measured]
    features = np.array([_features(*numbers) for numbers in sizes])
    values = np.array([row[column] for row in measured], dtype=float)
    weights = 1 / np.maximum(values, MIB)  # relative errors
    coefficients = np.linalg.lstsq(features * weights[:, None], values * weights, rcond=None)[0]
    ratios = values / (features @ coefficients)
    return coefficients * max(1, ratios[values > LARGE].max())  # so that none of these is predicted too small


def _features(hidden: int, steps: int, rows: int, itemsize: int, inputs: int) -> np.ndarray:
    numbers = rows * steps * hidden, rows * hidden, rows * steps * inputs, rows, hidden**2
    return np.array([*(itemsize * number for number in numbers), MIB], dtype=float)


@cache
def _measured() -> list[dict]:
    content = json.loads(MEASURED.read_text())
    return [dict(zip(content["columns"], row, strict=True)) for row in content["rows"]]


def _bytes(tensors) -> int:
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)
