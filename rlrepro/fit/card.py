"""A simulated GPU: tensors that a script moves to "cuda" are counted apart from those in host memory."""

from contextlib import ExitStack, contextmanager, nullcontext
from inspect import signature
from threading import local
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import _foreach_supported_types as optimizer_types
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils
from torch.utils._device import DeviceContext, _device_constructors
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.data import DataLoader

from rlrepro.fit.one_gpu import RETURN_VALUES
from rlrepro.lab.storage_tracker import StorageCount, _storages

CARD, CPU = torch.device("cuda", 0), torch.device("cpu")
FAKE_DEVICE = FakeTensor.device
OF_WORKERS = ("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")


class CardCount(StorageCount):
    """Counts what the GPU holds; `host` counts the rest. For torch, all tensors are on the CPU. A new one counts as on
    the GPU if the call requests that device, or if one of its arguments is there."""

    def __init__(self):
        super().__init__(None, CPU)
        self.host = StorageCount(None, CPU)
        self.inside = False  # an operator, where the device of every tensor is torch's CPU
        self.target = None  # device of the current call's results: True for the GPU, None for that of the arguments
        self.default = None  # device of new tensors: that of `with torch.device(...)` or torch.set_default_device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, was_inside, self.inside = kwargs or {}, self.inside, True
        try:
            return self._call_and_count(func, args, kwargs)
        finally:
            self.inside = was_inside

    def _call_and_count(self, func, args, kwargs):
        on_card = self.holds((args, kwargs)) if self.target is None else self.target
        with self.leaving_out():
            self._count(func, (args, kwargs), created=False)
        is_sum = self.is_sum_of_gradients(func, args)
        result = func(*args, **kwargs)
        if is_sum:
            self.leave_out(args[0])
        with nullcontext() if on_card else self.leaving_out():
            self._count(func, result)
        if not on_card:
            self.host._count(func, [leaf for leaf in tree_leaves(result) if not self.holds(leaf)])
        return result

    def holds(self, values) -> bool:
        """Whether any of these tensors is on the GPU."""
        was_inside, self.inside = self.inside, True
        values = tree_map_only(torch.Tensor, _unwrap, values)
        on_card = any(storage._cdata in self._counted for storage in _storages(values, "cpu"))
        self.inside = was_inside
        return on_card

    @contextmanager
    def results_on(self, target: bool):
        """A context in which results are on the GPU, or not."""
        previous, self.target = self.target, target
        try:
            yield
        finally:
            self.target = previous

    def device_of(self, tensor: FakeTensor) -> torch.device:
        """The value of `tensor.device` in this run."""
        if self.inside or tensor.fake_mode.in_kernel_invocation or on_meta(tensor):
            return FAKE_DEVICE.__get__(tensor)
        return CARD if self.holds(tensor) else CPU


def _unwrap(tensor):
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


class CardDevice(TorchFunctionMode):
    """Lets code request "cuda" and read the device of a tensor."""

    def __init__(self, count: CardCount):
        super().__init__()
        self.count = count

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name == "__get__":
            prop = getattr(func.__self__, "__name__", "")
            if prop in ("device", "is_cuda", "is_cpu") and not on_meta(args[0]):
                on_card = self.count.holds(args[0])
                return {"device": CARD if on_card else CPU, "is_cuda": on_card, "is_cpu": not on_card}[prop]
            return func(*args, **kwargs)
        if func is torch.Tensor.get_device:
            return 0 if self.count.holds(args[0]) else -1
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func in (torch.Tensor.cuda, torch.Tensor.cpu):
            return self._move(args[0], func is torch.Tensor.cuda)
        if func is torch.Tensor.to and len(args) > 1 and isinstance(args[1], torch.Tensor):
            args = (
                args[0],
                self.__torch_function__(torch.Tensor.device.__get__, (), (args[1],)),
                args[1].dtype,
                *args[2:],
            )
        if self.count.default and func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = self.count.default
        target, args, kwargs = _on_cpu(func, args, kwargs)
        if target is None:
            return func(*args, **kwargs)
        if func is torch.Tensor.to:
            dtypes = [argument for argument in (*args[1:], *kwargs.values()) if isinstance(argument, torch.dtype)]
            return self._move(args[0], target, *dtypes, memory_format=kwargs.get("memory_format"))
        if func is torch.as_tensor and isinstance(args[0], torch.Tensor):
            return self._move(func(*args, **kwargs), target)
        if func in (torch.as_tensor, torch.tensor) and target:
            return self._move(func(*args, **kwargs), True)
        return self._call(target, func, *args, **kwargs)

    def _move(self, tensor, to_card: bool, dtype=None, **layout):
        copy = self.count.holds(tensor) != to_card
        return self._call(to_card, torch.Tensor.to, tensor, "cpu", dtype or tensor.dtype, copy=copy, **layout)

    def _call(self, target: bool, func, *args, **kwargs):
        with self.count.results_on(target):
            return func(*args, **kwargs)


def _on_cpu(func, args, kwargs):
    """(whether the requested device is the GPU, None without one; the arguments with torch's CPU in its place)."""
    if func in (torch.device, torch._C._nn._parse_to):
        return None, args, kwargs
    devices = [value for value in args if is_device(value)]
    if kwargs.get("device") is not None and torch.device(kwargs["device"]).type != "meta":
        devices.append(kwargs["device"])
        kwargs["device"] = CPU
    if not devices:
        return None, args, kwargs
    is_card = isinstance(devices[0], int) or torch.device(devices[0]).type == "cuda"
    return is_card, tuple(CPU if is_device(value) else value for value in args), kwargs


def is_device(value) -> bool:
    """Whether this is a device that holds memory, or the name of one."""
    name = value.type if isinstance(value, torch.device) else value.partition(":")[0] if isinstance(value, str) else ""
    return name in ("cuda", "cpu")


def on_meta(tensor: FakeTensor) -> bool:
    """Whether this is a tensor of the meta device, which takes no memory on any machine."""
    return isinstance(tensor, FakeTensor) and FAKE_DEVICE.__get__(tensor).type == "meta"


@contextmanager
def one_card(count: CardCount):
    """Make torch behave as on a machine with one GPU, as far as Python code can see. Autocast casts the operators that
    it casts on a CPU, and data are loaded in this process."""
    init, load = torch.amp.autocast_mode.autocast.__init__, DataLoader.__init__

    def autocast(self, device_type, dtype=None, *args, **kwargs):
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        init(self, device_type, dtype, *args, **kwargs)

    def load_here(self, *args, **kwargs):
        bound = signature(load).bind(self, *args, **kwargs).arguments
        options = bound.pop("kwargs", {}) | {name: value for name, value in bound.items() if name not in OF_WORKERS}
        load(**options)

    def enter(context):
        context.old_device, count.default = count.default, context.device

    def leave(context, *_):
        count.default = context.old_device

    with ExitStack() as stack:
        for module, values in RETURN_VALUES.items():
            for name, value in values.items():
                stack.enter_context(patch.object(module, name, lambda *_, value=value, **__: value))
        for owner, name, value in (
            (torch.backends.cudnn, "is_acceptable", lambda _: False),
            (torch.Tensor, "record_stream", lambda *_: None),
            (torch.nn.DataParallel, "scatter", lambda _, inputs, kwargs, ids: ((inputs,), (kwargs,))),
            (torch, "Generator", _Generator),
            (torch, "_GLOBAL_DEVICE_CONTEXT", local()),  # of torch.set_default_device
            (DeviceContext, "__enter__", enter),
            (DeviceContext, "__exit__", leave),
            (DataLoader, "__init__", load_here),
            (FakeTensor, "device", property(count.device_of)),
            (torch.amp.autocast_mode.autocast, "__init__", autocast),
        ):
            stack.enter_context(patch.object(owner, name, value))
        yield


class _Generator(torch.Generator):
    """A generator of the CPU, whatever the device."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls, "cpu")


@contextmanager
def like_ordinary_tensors():
    """Make optimizers and gradient clipping choose the implementation that they choose for ordinary tensors. A module
    that is moved keeps its parameters, with new data."""

    def set_data(tensor, converted):
        if on_meta(tensor) == on_meta(converted):
            tensor.data = converted.data
        else:  # torch makes a new parameter
            tensor.__dict__, converted.__dict__ = converted.__dict__, tensor.__dict__
            torch._C._swap_tensor_impl(tensor, converted)

    def initialize(module, *args, **kwargs):
        return module(*args, **kwargs)

    type_lists = _foreach_utils._foreach_supported_types, optimizer_types
    for types in type_lists:
        types.append(FakeTensor)
    try:
        with patch("torch.utils.swap_tensors", set_data), patch("torch.nn.utils.skip_init", initialize):
            yield
    finally:
        for types in type_lists:
            types.remove(FakeTensor)
