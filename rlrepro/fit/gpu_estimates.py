"""What operators need on a GPU on top of their results, estimated where they can't be measured on one.

- Convolutions: cuDNN's tensor-core kernels, for all dtypes but float64, read and write channels last. With torch's
  default layout, cuDNN copies each argument and the result. For some gradients it chooses kernels that need more
  memory, and for some sizes kernels that need less; only a run on a GPU can tell.
- Attention: all three backward kernels (torch's memory-efficient one, cuDNN's, and the flash kernel) accumulate
  gradients in float32. In half precision, torch uses the flash kernel if it has to pad heads
  (aten/src/ATen/native/transformers/cuda: mem_eff_attention/kernel_backward.h and flash_attn/flash_api.cpp).
- The gradient of a softmax: the product of its two arguments (aten/src/ATen/native/cuda/SoftMax.cu).
- Reductions over rows: see gpu_reductions.py. Dropout, which is fused, needs nothing.
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
BLOCK_BYTES = 4 * BLOCK**2 + 16  # with a lock and a counter
CUDNN_BYTES = 256  # of cuDNN's attention, besides its sums
FLASH_ROWS, FLASH_COLUMNS, FLASH_WIDTH = 128, 32, 8  # the flash kernel rounds up to these; the last one pads


def estimated(device: str, measured_on: torch.device) -> frozenset:
    """The operators to estimate in a plan for "cpu" or "cuda", if the others are measured on that device."""
    if device == "cpu":
        return frozenset()
    unless_measured = CONVOLUTIONS | {SOFTMAX_BACKWARD} if measured_on.type == "cpu" else frozenset()
    return REDUCTIONS | DROPOUT | {ATTENTION_BACKWARD} | unless_measured


def temporary_blocks(func, args, result) -> tuple[int, ...]:
    """The bytes of each block of memory that one of these operators needs."""
    if func in REDUCTIONS:
        copied = _bytes_when_cast(args[0], result.dtype)
        return copied, buffer_bytes(*args[:2], dtype=result.dtype if copied else None)
    if func is SOFTMAX_BACKWARD:
        return (_bytes(args[0]),)
    if func in DROPOUT or args[0].dtype is torch.float64:
        return ()
    if func is ATTENTION_BACKWARD:
        return attention_blocks(*args[:3])
    if func is CONVOLUTION_BACKWARD:
        note("cuDNN may choose a kernel that needs more for gradients of convolutions; a plan on the GPU measures it")
    if args[0].is_contiguous(memory_format=torch.channels_last):
        return ()
    if func is CONVOLUTION:
        return (_bytes(result, *args[:2]),)
    gradient, inputs, weight = args[:3]  # the gradients of the input and of the weight, one after the other
    return (_bytes(gradient, weight, inputs),)


def attention_blocks(gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> tuple[int, ...]:
    """Bytes of each block of attention's backward pass: copies of arguments and, in the flash kernel, results with
    padded heads; a sum for each row of `gradient`; and what gradients are added up in."""
    *heads, steps, width = query.shape
    if query.element_size() == 4:  # the memory-efficient kernel
        blocks = ceil(key.shape[-2] / BLOCK) * ceil(width / BLOCK)
        return _bytes(gradient), prod(heads) * steps * 4, prod(heads) * blocks * BLOCK_BYTES
    padded = _round_up(width, FLASH_WIDTH)
    if width == padded:  # cuDNN's kernel
        return (prod(heads) * steps * (width + 1) * 4 + CUDNN_BYTES,)
    copied = _bytes(gradient) // width * padded
    rows = prod(heads) * _round_up(steps, FLASH_ROWS)
    return *[copied] * 6, rows * 4, rows * _round_up(padded, FLASH_COLUMNS) * 4


def _bytes_when_cast(values: torch.Tensor, dtype: torch.dtype) -> int:
    """Bytes of the copy that a sum makes of values of another dtype: none from half precision to float32."""
    is_cast = values.dtype is not dtype and (values.element_size(), dtype) != (2, torch.float32)
    return values.numel() * dtype.itemsize * is_cast


def _round_up(size: int, unit: int) -> int:
    return ceil(size / unit) * unit


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(prod(tensor.shape) * tensor.element_size() for tensor in tensors)
