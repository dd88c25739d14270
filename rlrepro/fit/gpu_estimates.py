"""What operators need on a GPU on top of their results, estimated where they can't be measured on one.

- cuDNN's convolutions: except in float64, its kernels for tensor cores read and write channels last. With torch's
  default layout, it copies each argument and the result. For some gradients it chooses kernels that need more, and for
  some sizes others that need less: only a GPU can tell.
- Attention: the backward pass adds up gradients of blocks in float32: in torch's memory-efficient kernel, and in the
  flash kernel, which torch uses where it has to pad heads in half precision
  (aten/src/ATen/native/transformers/cuda: mem_eff_attention/kernel_backward.h and flash_attn/flash_api.cpp).
- The gradient of a softmax: the product of its two arguments (aten/src/ATen/native/cuda/SoftMax.cu).
- Sums over rows: see gpu_reductions.py. Dropout, which is fused, needs nothing.
"""

from math import ceil, prod

import torch

from rlrepro.fit.gpu_reductions import REDUCTIONS, buffer_bytes
from rlrepro.fit.marks import note

CONVOLUTION, CONVOLUTION_BACKWARD = torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default
ATTENTION_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default  # what a CPU plans
DROPOUT = frozenset({torch.ops.aten.native_dropout.default, torch.ops.aten.native_dropout_backward.default})
CONVOLUTIONS = frozenset({CONVOLUTION, CONVOLUTION_BACKWARD})
SOFTMAX_BACKWARD = torch.ops.aten._softmax_backward_data.default
BLOCK = 64  # rows and columns of a block of gradients in the memory-efficient kernel
FLASH_ROWS, FLASH_COLUMNS, FLASH_WIDTH = 128, 32, 8  # the flash kernel rounds up to these; the last one pads


def estimated(device: str, measured_on: torch.device) -> frozenset:
    """The operators to estimate in a plan for "cpu" or "cuda", if the others are measured on that device."""
    if device == "cpu":
        return frozenset()
    unless_measured = CONVOLUTIONS | {SOFTMAX_BACKWARD} if measured_on.type == "cpu" else frozenset()
    return REDUCTIONS | DROPOUT | {ATTENTION_BACKWARD} | unless_measured


def temporary_bytes(func, args, result) -> int:
    """The bytes that one of these operators needs."""
    if func in REDUCTIONS:
        copied = _bytes_when_cast(args[0], result.dtype)
        return copied + buffer_bytes(*args[:2], dtype=result.dtype if copied else None)
    if func is SOFTMAX_BACKWARD:
        return _bytes(args[0])
    if func in DROPOUT or args[0].dtype is torch.float64:
        return 0
    if func is ATTENTION_BACKWARD:
        _, query, key = args[:3]
        *heads, _, width = query.shape
        if query.element_size() == 2:
            padded = _round_up(width, FLASH_WIDTH)  # else cuDNN's kernel
            return 0 if width == padded else flash_bytes(query) + _bytes(*args[:4]) // width * padded
        blocks = ceil(key.shape[-2] / BLOCK) * ceil(width / BLOCK)
        return prod(heads) * blocks * BLOCK**2 * 4
    if func is CONVOLUTION_BACKWARD:
        note("cuDNN may choose a kernel that needs more for gradients of convolutions; a plan on the GPU measures it")
    if args[0].is_contiguous(memory_format=torch.channels_last):
        return 0
    if func is CONVOLUTION:
        return _bytes(result, *args[:2])
    gradient, inputs, weight = args[:3]  # the gradients of the input and of the weight, one after the other
    return _bytes(gradient, weight, inputs)


def flash_bytes(query: torch.Tensor) -> int:
    """Bytes in which the flash kernel's backward pass adds up gradients: float32 numbers, and a sum for each row."""
    *heads, steps, width = query.shape
    columns = _round_up(_round_up(width, FLASH_WIDTH), FLASH_COLUMNS)
    return prod(heads) * _round_up(steps, FLASH_ROWS) * (columns + 1) * 4


def _bytes_when_cast(values: torch.Tensor, dtype: torch.dtype) -> int:
    """Bytes of the copy that a sum makes of values of another dtype: none from half precision to float32."""
    is_cast = values.dtype is not dtype and (values.element_size(), dtype) != (2, torch.float32)
    return values.numel() * dtype.itemsize * is_cast


def _round_up(size: int, unit: int) -> int:
    return ceil(size / unit) * unit


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(prod(tensor.shape) * tensor.element_size() for tensor in tensors)
