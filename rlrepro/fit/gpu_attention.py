"""Makes attention run as on a GPU, as far as a CPU has the same kernels: with the fused one or without it."""

from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

MULTIPLE = 4  # of a head's width, in float32, for the memory-efficient kernel; half precision is padded


@contextmanager
def attention_on_gpu():
    """In this context, scaled_dot_product_attention is fused where it is on a GPU: not in float64, and in float32 for
    certain widths of a head; with dropout too, which a CPU's fused kernel does not have."""
    original = functional.scaled_dot_product_attention

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, *args, **options):
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else query.dtype
        is_fused = dtype.itemsize == 2 or (dtype is torch.float32 and query.shape[-1] % MULTIPLE == 0)
        dropout_p = 0.0 if is_fused else dropout_p
        with nullcontext() if is_fused else sdpa_kernel(SDPBackend.MATH):
            return original(query, key, value, attn_mask, dropout_p, *args, **options)

    with patch.object(functional, "scaled_dot_product_attention", attention):
        yield
