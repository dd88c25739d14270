"""The operators that autocast keeps in float32 on a GPU but not on a CPU, in a plan for a GPU."""

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

# torch's reference of autocast lists them; sums are left out, since they don't copy their argument
NAMES = """layer_norm group_norm softmax log_softmax softplus nll_loss smooth_l1_loss huber_loss l1_loss kl_div norm
exp expm1 log log10 log2 log1p pow __pow__ rsqrt reciprocal tan asin acos sinh cosh erfinv"""
KEPT = {
    getattr(owner, name)
    for owner in (torch, functional, torch.Tensor)
    for name in NAMES.split()
    if hasattr(owner, name)
}


class AutocastOfGPU(TorchFunctionMode):
    """Where autocast is on, these operators compute in float32, from copies of half-precision arguments."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in KEPT and torch.is_autocast_enabled("cpu"):
            args, kwargs = tree_map_only(torch.Tensor, _in_float32, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def _in_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() and tensor.dtype.itemsize == 2 else tensor
