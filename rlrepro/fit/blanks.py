"""Arrays and tensors of zeros that stand in for data, and what makes a library's code take them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode


class BlankArray(np.ndarray):
    """An array of zeros of any size that takes no memory, and whose parts take none either."""

    def __new__(cls, shape: tuple[int, ...], dtype) -> "BlankArray":
        return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, [0] * len(shape)).view(cls)

    def __getitem__(self, index):
        if not isinstance(index, slice | list | np.ndarray):
            return super().__getitem__(index)
        rows = np.empty(len(self), dtype=bool)[index].shape
        return BlankArray((*rows, *self.shape[1:]), self.dtype)


class BlanksToTorch(TorchFunctionMode):
    """A blank array that is made a tensor becomes one of zeros; where torch would borrow the array, that is made
    within `making()`."""

    def __init__(self, making: Callable[[], AbstractContextManager] = nullcontext):
        super().__init__()
        self.making = making

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in (torch.as_tensor, torch.tensor, torch.from_numpy) or not isinstance(args[0], BlankArray):
            return func(*args, **kwargs)
        dtype = getattr(torch, args[0].dtype.name)
        with nullcontext() if func is torch.tensor else self.making():
            tensor = torch.zeros(args[0].shape, dtype=dtype)
        return tensor.to(dtype=kwargs.get("dtype") or dtype, device=kwargs.get("device"))


def blank_parameters(module: torch.nn.Module, dtype: torch.dtype, device: str = "cpu") -> torch.nn.Module:
    """`module` with zeros, in that precision and on that device, in the place of each parameter and buffer."""
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    kind = dtype if tensor.is_floating_point() else tensor.dtype
                    blank = torch.zeros(tensor.shape, dtype=kind, device=device)
                    is_parameter = isinstance(tensor, torch.nn.Parameter)
                    tensors[name] = torch.nn.Parameter(blank, tensor.requires_grad) if is_parameter else blank
    return module


@contextmanager
def arrays_of_fakes():
    """Let `.numpy()` of a fake tensor give zeros."""

    def numpy(self, **_):
        return BlankArray(tuple(self.shape), str(self.dtype).removeprefix("torch."))

    FakeTensor.numpy = numpy
    try:
        yield
    finally:
        del FakeTensor.numpy


@contextmanager
def random_states_kept():
    """Leave the caller's random numbers as they were."""
    state = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        np.random.set_state(state)
