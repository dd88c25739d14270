"""Makes attention use the fused kernel where a GPU would, as far as a CPU has the same kernels."""

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

MULTIPLE = {4: 4, 2: 8}  # of a head's width, for fused kernels, by the bytes of a number; half precision is padded


@contextmanager
def attention_on_gpu(holds: Callable):
    """In this context, scaled_dot_product_attention is fused where it is on a GPU. float64 is never fused; float32 is
    fused if the width of a head is a multiple of 4, and half precision if it is a multiple of 8 or if there is no mask.
    Dropout does not prevent it, although a CPU's fused kernel lacks dropout. `holds(tensors)` is whether the GPU has
    any of them."""
    original = functional.scaled_dot_product_attention

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, *args, **options):
        if not holds((query, key, value)):
            return original(query, key, value, attn_mask, dropout_p, *args, **options)
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else query.dtype
        width, size = query.shape[-1], dtype.itemsize
        is_aligned = size in MULTIPLE and width % MULTIPLE[size] == 0
        is_fused = is_aligned or (size == 2 and attn_mask is None)
        dropout_p = 0.0 if is_fused else dropout_p
        if is_fused and not is_aligned:
            padding = 0, -width % MULTIPLE[size]
            query, key, value = (functional.pad(x.to(dtype), padding)[..., :width] for x in (query, key, value))
        with nullcontext() if is_fused else sdpa_kernel(SDPBackend.MATH):
            return original(query, key, value, attn_mask, dropout_p, *args, **options)

    with patch.object(functional, "scaled_dot_product_attention", attention):
        yield
