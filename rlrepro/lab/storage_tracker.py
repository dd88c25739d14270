"""Counts the storages of live tensors: how VirtualCard measures on a CPU."""

import weakref
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from rlrepro.lab.subclasses import as_constructed
from rlrepro.lab.units import format_value


class StorageCount(TorchDispatchMode):
    """Counts the storages of live tensors on one type of device, and raises an error if they exceed the limit."""

    def __init__(self, limit_bytes, device):
        super().__init__()
        self.limit_bytes, self.device_type = limit_bytes, device.type
        self.live_bytes = self.peak_bytes = 0
        self._counted = {}  # address of a storage -> (bytes, weak reference that reports its release)
        self._added_bytes_by_call = {}  # signature of an operator call -> bytes that it adds
        self._left_out = {}  # address of a storage -> weak reference
        self._nodes = {}  # address of a storage -> backward pass and node that created it
        self._leaving_out = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self._count(func, (args, kwargs), created=False)
        is_sum = self.is_sum_of_gradients(func, args)
        if self.limit_bytes is not None and not is_sum:
            self._check_limit(func, self._added_bytes(func, args, kwargs))
        result = func(*args, **kwargs)
        if is_sum:
            self.leave_out(args[0])
        self._count(func, result)
        return as_constructed(func, result)

    def is_sum_of_gradients(self, func, args) -> bool:
        """Whether autograd adds the gradients from two uses of a tensor. It does so in the memory of the first, except
        within a dispatch mode such as this one (`can_accumulate_inplace` in torch's input_buffer.cpp)."""
        if func is not torch.ops.aten.add.Tensor or torch.is_grad_enabled() or (current := _current_node()) is None:
            return False
        first, second = args
        if not isinstance(second, torch.Tensor) or first.shape != second.shape or not first.is_contiguous():
            return False
        created = [self._nodes.get(storage._cdata) for storage in _storages(args, self.device_type)]
        is_of_another_node = len(created) == 2 and created[0] and created[0][0] == current[0] and created[0] != current
        return is_of_another_node and created[1] == current and first._use_count() <= second._use_count()

    def holds(self, values) -> bool:
        """Whether any of these tensors is on the counted device: all are, unless a subclass counts another one."""
        return True

    def leave_out(self, tensor: torch.Tensor) -> None:
        """Stop counting a tensor's storage."""
        for storage in _storages(tensor, self.device_type):
            address = storage._cdata
            if address in self._counted:
                self._remove(address)
                self._left_out[address] = weakref.ref(storage, lambda _, address=address: self._left_out.pop(address))

    def changed(self, address: int, delta: int, created: bool) -> None:
        """Called when a storage grows by `delta` bytes, or shrinks if negative. `created`: whether the current operator
        created it."""

    def _count(self, func, values, created=True):
        for storage in _storages(values, self.device_type):
            address, size = storage._cdata, storage.nbytes()
            if self._leaving_out and address not in self._counted:
                self._left_out[address] = weakref.ref(storage, lambda _, address=address: self._left_out.pop(address))
            if address in self._left_out:
                continue
            old_size, reference = self._counted.get(address, (0, None))
            if reference is None:
                reference = weakref.ref(storage, lambda _, address=address: self._remove(address))
            self._counted[address] = size, reference  # an operator may have resized it
            if created and not old_size and (node := _current_node()):
                self._nodes[address] = node
            self.live_bytes += size - old_size
            if size != old_size:
                self.changed(address, size - old_size, created)
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            if size > old_size:
                self._check_limit(func, 0, requested=size - old_size)

    def restart_peak(self):
        self.peak_bytes = self.live_bytes

    @contextmanager
    def leaving_out(self):
        """Storages that are created in this context are never counted."""
        self._leaving_out = True
        try:
            yield
        finally:
            self._leaving_out = False

    def _remove(self, address):
        size, _ = self._counted.pop(address)
        self._nodes.pop(address, None)
        self.live_bytes -= size
        self.changed(address, -size, created=False)

    def _check_limit(self, func, extra, requested=None):
        if self.limit_bytes is None or self.live_bytes + extra <= self.limit_bytes:
            return
        requested = extra if requested is None else requested
        live = self.live_bytes + extra - requested
        raise torch.OutOfMemoryError(
            f"virtual card out of memory: {func} requested {format_value(requested, 'B')} with "
            f"{format_value(live, 'B')} live and {format_value(self.limit_bytes, 'B')} allowed"
        )

    def _added_bytes(self, func, args, kwargs) -> int:
        """The bytes that `func` will add by new or larger storages, from a run on the meta device, which computes
        nothing. 0 for operators on another type of device, and for those without a meta kernel or with shapes that
        depend on data: these are counted after they have run."""
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        elsewhere = {tensor.device.type for tensor in tensors} - {self.device_type}
        target, is_nested = kwargs.get("device"), any(tensor.is_nested for tensor in tensors)  # which has no size
        if elsewhere or is_nested or (target is not None and torch.device(target).type != self.device_type):
            return 0
        leaves = (_signature(leaf, func) for leaf in tree_leaves((args, kwargs)))
        key = func, torch.get_default_dtype(), *kwargs, *leaves
        if key not in self._added_bytes_by_call:
            self._added_bytes_by_call[key] = self._added_bytes_on_meta(func, args, kwargs)
        return self._added_bytes_by_call[key]

    @staticmethod
    def _added_bytes_on_meta(func, args, kwargs) -> int:
        try:
            with _disable_current_modes():
                args, kwargs = tree_map_only(torch.Tensor, _as_meta, (args, kwargs))
                if "device" in kwargs:
                    kwargs["device"] = "meta"
                inputs = [(storage, storage.nbytes()) for storage in _storages((args, kwargs), "meta")]
                results = {storage._cdata: storage for storage in _storages(func(*args, **kwargs), "meta")}
        except Exception:
            return 0
        grown = sum(max(0, storage.nbytes() - old_size) for storage, old_size in dict(inputs).items())
        old_addresses = {storage._cdata for storage, _ in inputs}
        return grown + sum(storage.nbytes() for address, storage in results.items() if address not in old_addresses)


def _current_node() -> tuple[int, int] | None:
    """The backward pass in progress, and the node of the graph that it evaluates."""
    task = torch._C._current_graph_task_id()
    return None if task == -1 else (task, torch._C._current_autograd_node()._sequence_nr())


def _signature(leaf, func):
    """The properties of an argument that sizes of results can depend on. Sizes of an in-place operator depend only on
    its tensors, not on its real numbers (an optimizer passes new ones in every step)."""
    if isinstance(leaf, torch.Tensor):
        return leaf.size(), leaf.layout is torch.strided and leaf.stride(), leaf.dtype
    return float if isinstance(leaf, float) and func._schema.is_mutable else (type(leaf), str(leaf))


def _as_meta(tensor):
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _storages(values, device_type):
    """The storages owned by torch's allocator; those that can't be resized are borrowed from NumPy or a file."""
    for tensor in tree_leaves(values):
        if isinstance(tensor, torch.Tensor) and tensor.device.type == device_type:
            for part in _dense_parts(tensor):
                try:
                    storage = part.untyped_storage()
                except (NotImplementedError, RuntimeError):  # a wrapper, whose parts appear as separate tensors
                    continue
                if storage.resizable():
                    yield storage


def _dense_parts(tensor):
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor,)
