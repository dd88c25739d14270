"""What operators need on a GPU on top of their results, estimated where they can't be measured on one.

- cuDNN's convolutions: except in float64, its kernels for tensor cores read and write channels last. With torch's
  default layout, it copies each argument and the result. For some gradients it chooses kernels that need more, and for
  some sizes others that need less: only a GPU can tell.
- Attention: the backward pass of torch's memory-efficient kernel adds up gradients of blocks in float32
  (aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h).
"""

from math import ceil, prod

import torch

CONVOLUTION, CONVOLUTION_BACKWARD = torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default
ATTENTION_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default  # what a CPU plans
CONVOLUTIONS = frozenset({CONVOLUTION, CONVOLUTION_BACKWARD})
BLOCK = 64  # rows and columns of a block of gradients


def estimated(device: str, measured_on: torch.device) -> frozenset:
    """The operators to estimate in a plan for "cpu" or "cuda", if the others are measured on that device."""
    if device == "cpu":
        return frozenset()
    return {ATTENTION_BACKWARD} | (CONVOLUTIONS if measured_on.type == "cpu" else frozenset())


def temporary_bytes(func, args, result) -> int:
    """The bytes that one of these operators needs."""
    if args[0].dtype is torch.float64:
        return 0
    if func is ATTENTION_BACKWARD:
        _, query, key = args[:3]
        if query.element_size() == 2 and query.shape[-1] % 8 == 0:  # cuDNN's or the flash kernel
            return 0
        blocks = ceil(key.shape[-2] / BLOCK) * ceil(query.shape[-1] / BLOCK)
        return prod(query.shape[:-2]) * blocks * BLOCK**2 * 4
    if args[0].is_contiguous(memory_format=torch.channels_last):
        return 0
    if func is CONVOLUTION:
        return _bytes(result, *args[:2])
    gradient, inputs, weight = args[:3]  # the gradients of the input and of the weight, one after the other
    return _bytes(gradient, weight, inputs)


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(prod(tensor.shape) * tensor.element_size() for tensor in tensors)
