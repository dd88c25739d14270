"""Arrays and tensors of zeros that replace data, and what makes a library's code accept them."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from threading import RLock
from unittest.mock import patch

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from rlrepro.fit.known_values import KNOWN
from rlrepro.fit.marks import chosen_branch, note
from rlrepro.fit.user_code import own_line


class BlankArray(np.ndarray):
    """An array of any size that takes no memory. Neither do its parts. All its elements are `value`."""

    def __new__(cls, shape: tuple[int, ...], dtype, value=0) -> "BlankArray":
        return _blank_array(shape, dtype, value).view(cls)

    def __getitem__(self, index):
        items = index if isinstance(index, tuple) else (index,)
        if any(item is None or item is Ellipsis for item in items):
            return super().__getitem__(index)
        indexed = max((position + 1 for position, item in enumerate(items) if not isinstance(item, slice)), default=0)
        shape = _blank_array(self.shape[:indexed], bool)[items[:indexed]].shape if indexed else ()
        shape += _blank_array(self.shape[indexed:], bool)[items[indexed:]].shape
        return BlankArray(shape, self.dtype, self.item(0) if self.size else 0) if shape else super().__getitem__(index)


def _blank_array(shape: tuple[int, ...], dtype, value=0) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(np.full(1, value, dtype), shape, [0] * len(shape))


class BlankArraysToTensors(TorchFunctionMode):
    """Converts a blank array to a tensor with memory of its own. Where torch would share the array's memory, the tensor
    is made within `sharing()`."""

    def __init__(self, sharing: Callable[[], AbstractContextManager] = nullcontext):
        super().__init__()
        self.sharing = sharing

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.tensor and isinstance(args[0], list | tuple):
            args = tree_map_only(FakeTensor, lambda part: part.tolist(), args[0]), *args[1:]
        if func not in (torch.as_tensor, torch.tensor, torch.from_numpy) or not isinstance(args[0], np.ndarray):
            return func(*args, **kwargs)
        if not isinstance(args[0], BlankArray):
            if func is torch.tensor:
                return func(*args, **kwargs)
            with self.sharing():
                tensor = torch.as_tensor(args[0])
            return tensor.to(dtype=kwargs.get("dtype") or tensor.dtype, device=kwargs.get("device"))
        dtype = getattr(torch, args[0].dtype.name)
        value = 0.5 if dtype.is_floating_point else int(dtype is torch.uint8)  # in the range that networks expect
        with nullcontext() if func is torch.tensor else self.sharing():
            tensor = torch.full(args[0].shape, value, dtype=dtype)
        return tensor.to(dtype=kwargs.get("dtype") or dtype, device=kwargs.get("device"))


def copy_together(modules: list[torch.nn.Module], dtype: torch.dtype | None, copy_tensor: Callable) -> list:
    """Deep copies that share what the modules share, with `copy_tensor(tensor, dtype)` in place of each tensor. Only
    floating-point tensors change their dtype."""
    memo, together = {}, torch.nn.ModuleList(modules)
    for module in together.modules():
        for tensor in (*module._parameters.values(), *module._buffers.values(), *vars(module).values()):
            if isinstance(tensor, torch.Tensor) and id(tensor) not in memo:
                copied = copy_tensor(tensor.detach(), dtype if dtype and tensor.is_floating_point() else tensor.dtype)
                is_parameter = isinstance(tensor, torch.nn.Parameter)
                memo[id(tensor)] = torch.nn.Parameter(copied, tensor.requires_grad) if is_parameter else copied
    return list(copy.deepcopy(together, memo))


@contextmanager
def fake_tensors_to_numpy(min_size: int = 0):
    """Let fake tensors be copied and formatted, and their `.numpy()` and `.tolist()` return zeros, or what `.item()`
    returns if they are bools: a mask selects all. Below `min_size` elements, the array is an ordinary one."""

    def numpy(self, **_):
        value = self.dtype is torch.bool and bool(chosen_branch(getattr(self, KNOWN, True)))
        shape, dtype = tuple(self.shape), str(self.dtype).removeprefix("torch.")
        return np.full(shape, value, dtype) if self.numel() < min_size else BlankArray(shape, dtype, value)

    def tolist(self):
        if not (self.is_floating_point() or self.is_complex() or self.dtype is torch.bool):
            note(f"whole numbers that tolist() reads are taken to be 0, even if they are sizes: {own_line()}")
        return numpy(self).tolist()

    def deepcopy(self, memo):  # torch's own copies the mode too, so that every view of the copy counts as a new tensor
        if not self.is_leaf:
            return torch.Tensor.__deepcopy__(self, memo)  # which raises an error with the reason
        if id(self) not in memo:
            copied = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
            copied._is_param = getattr(self, "_is_param", False)
            copied.grad = copy.deepcopy(self.grad, memo)
        return memo[id(self)]

    def text(self, form):
        return object.__format__(self, form) if self.dim() else format(self.detach().item(), form)

    with (
        patch.object(FakeTensor, "__format__", text),
        patch.object(FakeTensor, "numpy", numpy),
        patch.object(FakeTensor, "tolist", tolist),
        patch.object(FakeTensor, "__deepcopy__", deepcopy),
    ):
        yield


ONE_AT_A_TIME = RLock()  # FakeTensor.numpy and torch's profiler are process-wide


@contextmanager
def default_settings(device: torch.device):
    """Gradients on, none of the caller's modes, and the caller's random state restored afterwards."""
    state = np.random.get_state()
    settings = (
        ONE_AT_A_TIME,
        _disable_current_modes(),
        torch.inference_mode(False),  # which turns gradients on
        torch.autocast("cpu", enabled=False),
        torch.autograd.set_detect_anomaly(False),
        torch.random.fork_rng(devices=[torch.cuda.current_device()] if device.type == "cuda" else []),
        # only if the caller's default device differs (meta, say), since this mode slows each call
        nullcontext() if torch.get_default_device() == device else device,
    )
    try:
        with ExitStack() as stack:
            for setting in settings:
                stack.enter_context(setting)
            yield
    finally:
        np.random.set_state(state)
