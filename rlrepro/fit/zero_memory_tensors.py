"""Arrays and tensors of zeros that stand in for data, and what makes a library's code take them."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from threading import RLock

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes


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
    """A blank array that is made a tensor becomes one of its own; where torch would borrow the array, that is made
    within `making()`."""

    def __init__(self, making: Callable[[], AbstractContextManager] = nullcontext):
        super().__init__()
        self.making = making

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in (torch.as_tensor, torch.tensor, torch.from_numpy) or not isinstance(args[0], BlankArray):
            return func(*args, **kwargs)
        dtype = getattr(torch, args[0].dtype.name)
        value = 0.5 if dtype.is_floating_point else int(dtype is torch.uint8)  # numbers that networks expect
        with nullcontext() if func is torch.tensor else self.making():
            tensor = torch.full(args[0].shape, value, dtype=dtype)
        return tensor.to(dtype=kwargs.get("dtype") or dtype, device=kwargs.get("device"))


def copy_together(modules: list[torch.nn.Module], stand_in: Callable[[torch.Tensor], torch.Tensor]) -> list:
    """Deep copies that share what the modules share, with `stand_in(tensor)` in the place of each tensor in them."""
    memo, together = {}, torch.nn.ModuleList(modules)
    for part in together.modules():
        for tensor in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(tensor, torch.Tensor) and id(tensor) not in memo:
                found = stand_in(tensor.detach())
                is_parameter = isinstance(tensor, torch.nn.Parameter)
                memo[id(tensor)] = torch.nn.Parameter(found, tensor.requires_grad) if is_parameter else found
    return list(copy.deepcopy(together, memo))


def kind_of(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """The precision of a copy: `dtype` for real numbers, where it is given."""
    return dtype if dtype and tensor.is_floating_point() else tensor.dtype


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


ONE_AT_A_TIME = RLock()  # FakeTensor.numpy and torch's profiler belong to the whole process


@contextmanager
def usual_settings(device: torch.device):
    """Gradients on, nothing of the caller's modes, and the caller's random numbers left as they were."""
    state = np.random.get_state()
    settings = (
        ONE_AT_A_TIME,
        _disable_current_modes(),
        torch.inference_mode(False),  # which turns gradients on
        torch.autocast("cpu", enabled=False),
        torch.autograd.set_detect_anomaly(False),
        torch.random.fork_rng(devices=[torch.cuda.current_device()] if device.type == "cuda" else []),
        # where the caller's default is another, such as meta; otherwise spared, since it slows each call
        nullcontext() if torch.get_default_device() == device else device,
    )
    try:
        with ExitStack() as stack:
            for setting in settings:
                stack.enter_context(setting)
            yield
    finally:
        np.random.set_state(state)
