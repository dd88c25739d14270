"""Dropout as a GPU runs it: one operator, which keeps a mask of bools. On a CPU, the mask has the tensor's dtype."""

from contextlib import contextmanager

import torch


@contextmanager
def dropout_on_gpu():
    """In this context, dropout is fused, also inside attention that is not. This is how torch registers kernels, so it
    holds for the whole process."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("dropout", _dropout, "AutogradCPU")
    try:
        yield
    finally:
        library._destroy()


def _dropout(values: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    if not train or p == 0 or not values.numel():
        return values
    return values * 0 if p == 1 else torch.native_dropout(values, p, train)[0]
