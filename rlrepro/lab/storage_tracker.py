"""What live tensors hold: the account of a VirtualCard on a CPU."""

import weakref
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from rlrepro.lab.units import format_value


class StorageCount(TorchDispatchMode):
    """Counts the storages of live tensors on one kind of device, and refuses what passes the limit, if there is one."""

    def __init__(self, limit_bytes, device):
        super().__init__()
        self.limit_bytes, self.device_type = limit_bytes, device.type
        self.live_bytes = self.peak_bytes = 0
        self._counted = {}  # address of a storage -> (its bytes, a reference that tells when it is freed)
        self._would_add = {}  # what an operator's call looks like -> the bytes it would add
        self._left_out = {}  # address of a storage -> such a reference
        self._leaving_out = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self._count(func, (args, kwargs), made=False)
        if self.limit_bytes is not None:
            self._refuse(func, self._bytes_it_would_add(func, args, kwargs))
        result = func(*args, **kwargs)
        self._count(func, result)
        return result

    def changed(self, address: int, more: int, made: bool) -> None:
        """Called when a storage takes so many bytes more or, where negative, less; `made` by the operator at work, or
        there before it."""

    def _count(self, func, values, made=True):
        for storage in _storages(values, self.device_type):
            address, size = storage._cdata, storage.nbytes()
            if self._leaving_out and address not in self._counted:
                self._left_out[address] = weakref.ref(storage, lambda _, address=address: self._left_out.pop(address))
            if address in self._left_out:
                continue
            before, reference = self._counted.get(address, (0, None))
            if reference is None:
                reference = weakref.ref(storage, lambda _, address=address: self._forget(address))
            self._counted[address] = size, reference  # an operator may have resized it
            self.live_bytes += size - before
            if size != before:
                self.changed(address, size - before, made)
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            if size > before:
                self._refuse(func, 0, asked=size - before)

    def restart_peak(self):
        self.peak_bytes = self.live_bytes

    @contextmanager
    def leaving_out(self):
        """Storages that are made in this context are not counted, then or later."""
        self._leaving_out = True
        try:
            yield
        finally:
            self._leaving_out = False

    def _forget(self, address):
        size, _ = self._counted.pop(address)
        self.live_bytes -= size
        self.changed(address, -size, made=False)

    def _refuse(self, func, more, asked=None):
        if self.limit_bytes is None or self.live_bytes + more <= self.limit_bytes:
            return
        asked = more if asked is None else asked
        live = self.live_bytes + more - asked
        raise torch.OutOfMemoryError(
            f"virtual card out of memory: {func} asked for {format_value(asked, 'B')} with "
            f"{format_value(live, 'B')} live and {format_value(self.limit_bytes, 'B')} allowed"
        )

    def _bytes_it_would_add(self, func, args, kwargs) -> int:
        """The bytes by which `func` makes storages grow or adds new ones, found on the meta device, where nothing is
        computed. 0 for what works on another kind of device, and where shapes depend on data or have no meta kernel:
        those are counted after they ran."""
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        elsewhere = {tensor.device.type for tensor in tensors} - {self.device_type}
        target = kwargs.get("device")
        if elsewhere or (target is not None and torch.device(target).type != self.device_type):
            return 0
        leaves = (_looks(leaf, func) for leaf in tree_leaves((args, kwargs)))
        key = func, torch.get_default_dtype(), *kwargs, *leaves
        if key not in self._would_add:
            self._would_add[key] = self._found_on_meta(func, args, kwargs)
        return self._would_add[key]

    @staticmethod
    def _found_on_meta(func, args, kwargs) -> int:
        try:
            with _disable_current_modes():
                args, kwargs = tree_map_only(torch.Tensor, _as_meta, (args, kwargs))
                if "device" in kwargs:
                    kwargs["device"] = "meta"
                given = [(storage, storage.nbytes()) for storage in _storages((args, kwargs), "meta")]
                found = {storage._cdata: storage for storage in _storages(func(*args, **kwargs), "meta")}
        except Exception:
            return 0
        grown = sum(max(0, storage.nbytes() - before) for storage, before in dict(given).items())
        old = {storage._cdata for storage, _ in given}
        return grown + sum(storage.nbytes() for address, storage in found.items() if address not in old)


def _looks(leaf, func):
    """All of an argument that the sizes of results can depend on. An operator that works in place has its sizes from
    its tensors, whatever real numbers it is given (an optimizer gives others in each step)."""
    if isinstance(leaf, torch.Tensor):
        return leaf.size(), leaf.layout is torch.strided and leaf.stride(), leaf.dtype
    return float if isinstance(leaf, float) and func._schema.is_mutable else (type(leaf), str(leaf))


def _as_meta(tensor):
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _storages(values, device_type):
    """Storages owned by torch's allocator; one that can't be resized is borrowed from NumPy or a file."""
    for tensor in tree_leaves(values):
        if isinstance(tensor, torch.Tensor) and tensor.device.type == device_type:
            for part in _dense_parts(tensor):
                try:
                    storage = part.untyped_storage()
                except (NotImplementedError, RuntimeError):  # a wrapper, whose parts come as tensors of their own
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
