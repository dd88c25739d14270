"""Recurrent layers as cuDNN runs them on a GPU: one operator for all steps, with a reserve for the backward pass.

Torch's part is exact: it allocates the results, the reserve, contiguous copies of sequences, and one block for the
gradients of all weights (aten/src/ATen/native/cudnn/RNN.cpp). cuDNN does not publish how large its workspace is. It was
measured on a GPU by `measure_recurrent`; in these measurements it is the larger of two linear functions of the sizes,
which least squares finds, so that it can be predicted for other sizes. Autocast always chooses float16 for cuDNN's
layers (aten/src/ATen/cudnn/AutocastRNN.cpp).
"""

import json
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, partial
from math import ceil, prod
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import _VF

from rlrepro.fit.marks import note

MEASURED = Path(__file__).with_name("cudnn_recurrent.json")
KINDS = {"rnn_tanh": "RNN", "rnn_relu": "RNN", "gru": "GRU", "lstm": "LSTM"}
RESERVED = {"RNN": 1, "GRU": 6, "LSTM": 5}  # numbers that a layer keeps for its backward pass, for each of its outputs
RESERVED_BYTES = 256  # besides
FEW_HIDDEN, MANY_HIDDEN = 64, 256  # cuDNN has kernels for the latter that need far less; others were not measured
MIB, LARGE = 2**20, 16 * 2**20  # of fewer bytes, much is what the allocator rounds up
WEIGHTS = (2, 4)  # of a layer, without and with biases; others have a projection


@contextmanager
def recurrent_on_gpu(temporary: Callable, holds: Callable):
    """In this context, recurrent layers are planned as cuDNN runs them. `temporary(*sizes)` is a context in which
    blocks of these bytes are in use. `holds(tensors)` is whether the GPU has any of them. Packed sequences, and layers
    in host memory or without cuDNN, are left as they are."""

    def call(name, original, sequence, states, *others):
        is_packed = isinstance(states, torch.Tensor) and not states.is_floating_point()
        if is_packed or not torch.backends.cudnn.enabled or not holds(sequence):
            return original(sequence, states, *others)
        if torch._C._functorch.peek_interpreter_stack():
            note("recurrent layers under torch.func are planned step by step, as a CPU runs them")
            return original(sequence, states, *others)
        return _call(temporary, name, original, sequence, states, *others)

    for_kind = {name: patch.object(_VF, name, partial(call, name, getattr(_VF, name))) for name in KINDS}
    for replacement in for_kind.values():
        replacement.start()
    try:
        yield
    finally:
        for replacement in for_kind.values():
            replacement.stop()


def _call(temporary, name, original, sequence, states, weights, *options):
    _, layers, dropout, training, bidirectional, batch_first = options
    directions = 2 if bidirectional else 1
    if len(weights) // (layers * directions) not in WEIGHTS:
        return original(sequence, states, weights, *options)
    states = states if isinstance(states, tuple | list) else [states]
    tensors = [sequence, *states, *weights]
    if torch.is_autocast_enabled("cpu"):
        tensors = [tensor.half() for tensor in tensors]
    rows, steps = sequence.shape[:2] if batch_first else sequence.shape[1::-1]
    kind, dtype, hidden = KINDS[name], tensors[0].dtype, states[0].shape[-1]
    if FEW_HIDDEN < hidden < MANY_HIDDEN:
        note(f"cuDNN's workspace for recurrent layers of {hidden} units is planned at the most it may be")
    sizes = kind, dtype, layers, directions, hidden, steps, rows
    workspace = workspace_bytes(*sizes, sequence.shape[-1], training, dropout)
    reserve = reserve_bytes(*sizes, dropout) if training else 0
    shape = steps, rows, directions * hidden
    output, *last = _Layer.apply(temporary, workspace, reserve, shape, batch_first, len(states), *tensors)
    return output, *last


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, temporary, workspace, reserve_bytes, shape, batch_first, states, sequence, *tensors):
        with temporary(_copied_bytes(sequence, batch_first)):
            output = sequence.new_empty(shape)  # in memory, steps come first
            output = output.transpose(0, 1) if batch_first else output
            last = [torch.empty_like(state) for state in tensors[:states]]
            # torch.nn does not keep weights of this dtype in one block
            copied = [_block(sequence, tensors[states:])] if sequence.dtype is torch.bfloat16 else []
            with temporary(workspace):
                reserve = sequence.new_empty(reserve_bytes, dtype=torch.uint8)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(sequence, output, reserve, *tensors, *copied)
        ctx.temporary, ctx.workspace, ctx.batch_first, ctx.states = temporary, workspace, batch_first, states
        return output, *last

    @staticmethod
    def backward(ctx, *gradients):
        sequence, output, _, *tensors = ctx.saved_tensors
        states, weights = tensors[: ctx.states], tensors[ctx.states : len(ctx.needs_input_grad) - 7]
        gradients = [
            torch.empty_like(tensor) if gradient is None else gradient
            for tensor, gradient in zip((output, *states), gradients, strict=True)
        ]
        with ctx.temporary(*(_copied_bytes(x, ctx.batch_first) for x in (sequence, gradients[0]))):
            of_inputs = [torch.empty_like(tensor) for tensor in (sequence, *states)]
            with ctx.temporary(ctx.workspace):
                pass
        if not any(ctx.needs_input_grad[-len(weights) :]):
            return *[None] * 6, *of_inputs, *[None] * len(weights)
        with ctx.temporary(_copied_bytes(sequence, ctx.batch_first)):
            of_weights = _block(sequence, weights)
            with ctx.temporary(ctx.workspace):
                pass
        parts = of_weights.split([weight.numel() for weight in weights])
        of_weights = [part.view(weight.shape) for part, weight in zip(parts, weights, strict=True)]
        return *[None] * 6, *of_inputs, *of_weights


def _block(sequence: torch.Tensor, weights) -> torch.Tensor:
    """One block for all weights."""
    return sequence.new_empty(sum(weight.numel() for weight in weights))


def reserve_bytes(
    kind: str,
    dtype: torch.dtype,
    layers: int,
    directions: int,
    hidden: int,
    steps: int,
    rows: int,
    dropout: float = 0.0,
) -> int:
    """What such a layer keeps from its forward pass to its backward pass, besides inputs and outputs. Dropout keeps a
    bit for each number that a layer passes to each direction of the next one."""
    outputs = directions * hidden * steps * rows
    masks = (layers - 1) * directions * ceil(outputs / 8) if dropout else 0
    return (RESERVED[kind] * layers + layers - 1) * outputs * dtype.itemsize + masks + RESERVED_BYTES


def workspace_bytes(
    kind: str,
    dtype: torch.dtype,
    layers: int,
    directions: int,
    hidden: int,
    steps: int,
    rows: int,
    inputs: int,
    training: bool = True,
    dropout: float = 0.0,
) -> int:
    """What each pass of such a layer needs while it runs. `training` is the layer's mode."""
    is_copied = dropout and layers > 1 and training and kind != "RNN" and directions == 1
    copied = dtype.itemsize * hidden * steps * rows if is_copied else 0
    group, column = (kind, dtype, directions), "training" if training else "evaluation"
    one, two = (_planes(*group, count, column) for count in (1, 2))
    features = _features(hidden, steps, rows, dtype.itemsize, inputs)
    return copied + max(0, round(float(((one + (layers - 1) * (two - one)) @ features).max())))


@cache
def _planes(kind: str, dtype: torch.dtype, directions: int, layers: int, column: str) -> np.ndarray:
    """Coefficients of two linear functions of the features, an array of shape (2, features); the larger one counts.
    The first is for sequences of at most as many numbers a step as the hidden state has."""
    group = {"kind": kind, "dtype": str(dtype).removeprefix("torch."), "layers": layers, "directions": directions}
    measured = [row for row in _measured() if group.items() <= row.items()]
    is_wide = np.array([row["inputs"] > row["hidden"] for row in measured])
    sizes = [(row["hidden"], row["steps"], row["rows"], dtype.itemsize, row["inputs"]) for row in measured]
    features = np.array([_features(*numbers) for numbers in sizes])
    values = np.array([row[column] for row in measured], dtype=float)
    relative = features / np.maximum(values, MIB)[:, None], values / np.maximum(values, MIB)
    planes = np.array([np.linalg.lstsq(*(x[rows] for x in relative), rcond=None)[0] for rows in (~is_wide, is_wide)])
    ratios = values / (features @ planes.T).max(1)
    return planes * max(1, ratios[values > LARGE].max())  # so that none of these is predicted too small


def _features(hidden: int, steps: int, rows: int, itemsize: int, inputs: int) -> np.ndarray:
    sequence, is_small = rows * steps, hidden < MANY_HIDDEN
    numbers = sequence * hidden, sequence * inputs, sequence, rows * hidden, hidden**2, hidden * inputs
    if_small = sequence * hidden, sequence, rows * hidden
    return np.array(
        [*(itemsize * number for number in numbers), MIB, *(itemsize * number * is_small for number in if_small)],
        dtype=float,
    )


@cache
def _measured() -> list[dict]:
    content = json.loads(MEASURED.read_text())
    return [dict(zip(content["columns"], row, strict=True)) for row in content["rows"]]


def _copied_bytes(sequence: torch.Tensor, batch_first: bool) -> int:
    """Bytes of the copy with steps first that cuDNN reads."""
    is_copied = batch_first and not sequence.transpose(0, 1).is_contiguous()
    return prod(sequence.shape) * sequence.element_size() * is_copied
