"""Runs a library's own code on tensors that have shapes but take no memory, and counts what would be live.

The tensors are torch's FakeTensors. They are counted as by VirtualCard, so a plan and a virtual card agree to the byte.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from rlrepro.fit import gpu_estimates
from rlrepro.fit.card import CardCount
from rlrepro.fit.gpu_attention import attention_on_gpu
from rlrepro.fit.gpu_dropout import dropout_on_gpu
from rlrepro.fit.gpu_recurrent import recurrent_on_gpu
from rlrepro.fit.known_values import READS, follow, read
from rlrepro.fit.marks import chosen_branch, masks_keep_all
from rlrepro.fit.matrix_products import workspaces
from rlrepro.fit.operators import OperatorMemory
from rlrepro.fit.reserved import AllocationTrace
from rlrepro.fit.zero_memory_tensors import (
    BlankArraysToTensors,
    copy_together,
    default_settings,
    fake_tensors_to_numpy,
)
from rlrepro.lab.storage_tracker import StorageCount

REDUCED_LOSSES = (  # their mean is a view of the single losses, so these live as long as the mean
    torch.ops.aten.mse_loss.default,
    torch.ops.aten.smooth_l1_loss.default,
)

OF_SPARSE = {  # operators whose result has the entries of a sparse argument, and the position of that argument
    torch.ops.aten.clone.default: 0,
    torch.ops.aten._coalesce.default: 0,
    torch.ops.aten.sparse_mask.default: 1,
}


class DryRun:
    """A context in which tensors take no memory, and what a GPU would hold is counted.

    Numbers read from a tensor (`.item()`, `.numpy()`) are ones and zeros, and bools are true: code that only logs
    them works, and code that branches on them takes one of the branches.

    A peak is an array of two byte counts: live tensors without and with what operators need while they run, as far as
    `operators` knows it. With `copied_to_card`, arrays that become tensors are counted, since they are copied to
    a GPU; on a CPU, a tensor shares the array's memory.
    """

    def __init__(self, *, copied_to_card: bool, operators: OperatorMemory, count: StorageCount | None = None):
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.count = count or StorageCount(None, torch.device("cpu"))
        self.with_temporaries = self._temporary = 0
        self._stack = self._trace = None
        self._operators, self._copied = operators, copied_to_card
        self._workspaces = set(operators.workspaces)  # of matrix products, so far
        self.calls_are_free = False

    def __enter__(self):
        if self._stack is not None:
            raise RuntimeError("this dry run has already been entered")
        self._stack = ExitStack()
        conversion = BlankArraysToTensors(self.sharing)
        settings = default_settings(torch.device("cpu"))
        if self._copied:
            self._stack.enter_context(attention_on_gpu(self.count.holds))
            self._stack.enter_context(dropout_on_gpu())
            self._stack.enter_context(recurrent_on_gpu(self.temporary, self.count.holds))
        self._stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", r"std\(\): degrees of freedom")  # the search may try a minibatch of one
        for context in (settings, fake_tensors_to_numpy(), self.fake, self.count, _Operators(self), conversion):
            self._stack.enter_context(context)
        return self

    def __exit__(self, *raised):
        self._stack.close()
        self._stack = None

    def sharing(self) -> AbstractContextManager:
        """A context for tensors that share the memory of an array."""
        return nullcontext() if self._copied else self.count.leaving_out()

    def copy(self, modules: list[torch.nn.Module], dtype: torch.dtype | None) -> list[torch.nn.Module]:
        """Copies of the modules in that precision, on tensors that take no memory. Call it outside the context."""

        def fake_copy(tensor, dtype):
            with self.fake, self.count:  # counted from here on, whether it is read or not
                return torch.empty(tensor.shape, dtype=dtype, device="cpu")

        with default_settings(torch.device("cpu")), FakeCopyMode(self.fake):
            return copy_together(modules, dtype, fake_copy)

    def record(self, trace: AllocationTrace) -> None:
        """Record each allocation and free in `trace` from now on."""
        self._trace, self.count.changed = trace, trace.changed

    def peak_of(self, fn) -> tuple[np.ndarray, object]:
        """The peak during `fn()`, including what was live before, and the result of `fn`."""
        previous = self.peaks()
        self.restart()
        result = fn()
        peaks = self.peaks()
        self.restart(np.maximum(previous, peaks))
        return peaks, result

    def peaks(self) -> np.ndarray:
        """Peaks since the last `restart`."""
        return np.array([self.count.peak_bytes, max(self.count.peak_bytes, self.with_temporaries)])

    def restart(self, peaks=(0, 0)) -> None:
        """Start again from these peaks, or from what is live now."""
        self.count.peak_bytes, self.with_temporaries = (max(int(peak), self.count.live_bytes) for peak in peaks)

    def count_operator(self, func, args, kwargs, result):
        """Count what an operator needed while it ran. Returns its result; parts whose size fake tensors don't know have
        the measured size."""
        if isinstance(result, tuple) and any(isinstance(part, torch.Tensor) and not part.numel() for part in result):
            result = self._with_sizes(result, self._operators.results(func, args, kwargs))
        if func in OF_SPARSE and args[OF_SPARSE[func]].layout is torch.sparse_coo:
            result = _with_entries(func, result, args[OF_SPARSE[func]])
        if func in REDUCED_LOSSES and not result.dim():
            result = result.new_empty(args[0].numel()).as_strided((), ())
        is_estimated, used = func in self._operators.estimated, workspaces(func) - self._workspaces
        blocks = () if is_estimated else (self._operators.temporary_bytes(func, args, kwargs),)
        if (is_estimated or any(blocks) or used) and not self.count.holds((args, kwargs, result)):
            return result  # of an operator in host memory
        if is_estimated:
            blocks = gpu_estimates.temporary_blocks(func, args, result)
        for library, thread in used:
            self._workspaces.add((library, thread))
            if self._trace:
                address = -1 - len(self._workspaces)
                self._trace.changed(address, self._operators.workspace_bytes[library], created=True)
        with self.temporary(*blocks):
            return result

    @contextmanager
    def temporary(self, *sizes: int) -> Iterator[None]:
        """A context in which an operator has blocks of these bytes in use, on top of its results."""
        names = [self._trace.allocate(size) for size in sizes if size] if self._trace else []
        self._temporary += sum(sizes)
        try:
            yield
        finally:
            workspaces = sum(self._operators.workspace_bytes[library] for library, _ in self._workspaces)
            in_use = self.count.live_bytes + self._temporary + workspaces
            self.with_temporaries = max(self.with_temporaries, in_use)
            self._temporary -= sum(sizes)
            for name in names:
                self._trace.free(name)

    @staticmethod
    def _with_sizes(parts, sizes):
        """The parts of a result, with the measured sizes for empty parts."""
        if sizes is None or not all(isinstance(part, torch.Tensor) for part in parts):
            return parts
        if len(sizes) != sum(part.dim() for part in parts):
            return parts
        sizes = iter(sizes)
        shapes = [[next(sizes) for _ in part.shape] for part in parts]
        return type(parts)(
            part if part.numel() else part.new_empty(shape) for part, shape in zip(parts, shapes, strict=True)
        )

    def cache(self, owner, name: str, unless: Callable[[], bool] = lambda: False) -> None:
        """Trace that method only once for the same shapes of arguments. Later calls with these shapes count what the
        first one needed, or nothing while `calls_are_free`."""
        method, cached = getattr(owner, name), {}

        def cached_method(*args, **kwargs):
            if unless():
                return method(*args, **kwargs)
            key = tuple(tuple(leaf.shape) for leaf in tree_leaves((args, kwargs)) if hasattr(leaf, "shape"))
            if key not in cached:
                live_before = self.count.live_bytes
                peaks, result = self.peak_of(lambda: method(*args, **kwargs))
                cached[key] = peaks - live_before, tree_map_only(torch.Tensor, _maker, result)
                return result
            extra, makers = cached[key]
            if not self.calls_are_free:
                self.restart(np.maximum(self.peaks(), self.count.live_bytes + extra))
            return tree_map_only(partial, lambda make: make(), makers)

        setattr(owner, name, cached_method)


def _maker(tensor: torch.Tensor) -> partial:
    """A function that makes a tensor with the same layout."""
    return partial(torch.empty_strided, tensor.shape, tensor.stride(), dtype=tensor.dtype)


class _Operators(TorchDispatchMode):
    """Reports each operator to the run, and provides the result of `.item()` for a fake tensor."""

    def __init__(self, run: DryRun):
        super().__init__()
        self.run = run

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.prim.device.default:
            return args[0].fake_device  # a shortcut, since it is called so often
        if func.overloadpacket in READS:
            return read(func.overloadpacket, args[0])
        if func in (torch.ops.aten.equal.default, torch.ops.aten.allclose.default):
            return bool(chosen_branch(True))
        if func is torch.ops.aten.index.Tensor and masks_keep_all():
            with self.run.count.leaving_out():
                args = args[0], [row for index in args[1] for row in _rows(index)]
        if func is torch.ops.aten.lift_fresh.default and not args[0].untyped_storage().resizable():
            with self.run.sharing():  # the result of torch.from_numpy and torch.FloatTensor
                return func(*args)
        kwargs, device = kwargs or {}, (kwargs or {}).get("device")
        if isinstance(self.run.count, CardCount) and device is not None and device.type == "cuda":
            # as code in a backward pass requests it, where modes of functions such as CardDevice are not active
            with self.run.count.results_on(True):
                return self.__torch_dispatch__(func, types, args, kwargs | {"device": torch.device("cpu")})
        result = self.run.count_operator(func, args, kwargs, func(*args, **kwargs))
        follow(func, args, kwargs, result)
        return result


def _with_entries(func, result: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
    """The result with as many entries as an argument, where fake tensors have none; if indices coincide,
    real ones have fewer."""
    parts = sparse._indices().clone(), torch.empty_like(sparse._values(), dtype=result.dtype)
    is_coalesced = func is not torch.ops.aten.clone.default
    return torch.sparse_coo_tensor(*parts, result.shape, check_invariants=False, is_coalesced=is_coalesced)


def _rows(index) -> list:
    """The indices that an all-true mask selects, with arbitrary values; other indices are returned unchanged."""
    if index is None or index.dtype is not torch.bool:
        return [index]
    return [torch.zeros(index.numel(), dtype=torch.long) for _ in index.shape]
