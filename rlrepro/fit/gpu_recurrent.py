"""Recurrent layers as cuDNN runs them on a GPU: one operator for all steps, with a reserve space for the backward pass.

Besides cuDNN's workspace, torch allocates the results, the reserve space, contiguous copies of sequences, and one block
for the gradients of all weights (aten/src/ATen/native/cudnn/RNN.cpp). Autocast always chooses float16 for cuDNN's
layers (aten/src/ATen/cudnn/AutocastRNN.cpp).
"""

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from math import prod
from unittest.mock import patch

import torch
from torch import _VF

from rlrepro.fit.cudnn_recurrent import FEW_HIDDEN, MANY_HIDDEN, RecurrentLayer
from rlrepro.fit.marks import note

KINDS = {"rnn_tanh": "RNN", "rnn_relu": "RNN", "gru": "GRU", "lstm": "LSTM"}
WEIGHTS = (2, 4)  # of a layer, without and with biases; others have a projection


@contextmanager
def recurrent_on_gpu(temporary: Callable, holds: Callable):
    """In this context, recurrent layers are planned as cuDNN runs them. `temporary(*sizes)` is a context manager that
    holds blocks of these sizes, in bytes. `holds(tensors)` says whether any of them is on the planned GPU. Packed
    sequences, and layers in host memory or without cuDNN, are left as they are."""

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
    hidden = states[0].shape[-1]
    if FEW_HIDDEN < hidden < MANY_HIDDEN:
        note(f"cuDNN's workspace for recurrent layers of {hidden} units is planned at the most it may be")
    sizes = layers, directions, hidden, steps, rows, sequence.shape[-1]
    layer = RecurrentLayer(KINDS[name], tensors[0].dtype, *sizes, training, dropout)
    output, *last = _Layer.apply(temporary, layer, batch_first, len(states), *tensors)
    return output, *last


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, temporary, layer, batch_first, states, sequence, *tensors):
        with temporary(_copied_bytes(sequence, batch_first)):
            # in memory, steps come first
            output = sequence.new_empty(layer.steps, layer.rows, layer.directions * layer.hidden)
            output = output.transpose(0, 1) if batch_first else output
            last = [torch.empty_like(state) for state in tensors[:states]]
            # torch.nn does not keep weights of this dtype in one block
            copied = [_block(sequence, tensors[states:])] if sequence.dtype is torch.bfloat16 else []
            with temporary(layer.workspace_bytes):
                reserve = sequence.new_empty(layer.reserve_bytes, dtype=torch.uint8)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(sequence, output, reserve, *tensors, *copied)
        ctx.temporary, ctx.workspace = temporary, layer.workspace_bytes
        ctx.batch_first, ctx.states = batch_first, states
        return output, *last

    @staticmethod
    def backward(ctx, *gradients):
        sequence, output, _, *tensors = ctx.saved_tensors
        states, weights = tensors[: ctx.states], tensors[ctx.states : len(ctx.needs_input_grad) - 5]
        gradients = [
            torch.empty_like(tensor) if gradient is None else gradient
            for tensor, gradient in zip((output, *states), gradients, strict=True)
        ]
        with ctx.temporary(*(_copied_bytes(x, ctx.batch_first) for x in (sequence, gradients[0]))):
            of_inputs = [torch.empty_like(tensor) for tensor in (sequence, *states)]
            with ctx.temporary(ctx.workspace):
                pass
        if not any(ctx.needs_input_grad[-len(weights) :]):
            return *[None] * 4, *of_inputs, *[None] * len(weights)
        with ctx.temporary(_copied_bytes(sequence, ctx.batch_first)):
            of_weights = _block(sequence, weights)
            with ctx.temporary(ctx.workspace):
                pass
        parts = of_weights.split([weight.numel() for weight in weights])
        of_weights = [part.view(weight.shape) for part, weight in zip(parts, weights, strict=True)]
        return *[None] * 4, *of_inputs, *of_weights


def _block(sequence: torch.Tensor, weights) -> torch.Tensor:
    """One block for all weights."""
    return sequence.new_empty(sum(weight.numel() for weight in weights))


def _copied_bytes(sequence: torch.Tensor, batch_first: bool) -> int:
    """Bytes of the copy with steps first that cuDNN reads."""
    is_copied = batch_first and not sequence.transpose(0, 1).is_contiguous()
    return prod(sequence.shape) * sequence.element_size() * is_copied
