"""Plans memory-mapped tensors of tensordict, such as those of TorchRL's LazyMemmapStorage, without their files."""

import importlib.util
import sys
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch

from rlrepro.fit.marks import note
from rlrepro.lab.storage_tracker import StorageCount

MODULE = "tensordict.memmap"


@contextmanager
def no_mapped_files(counts: list[StorageCount]):
    """In this context, tensors that would be mapped to files take no memory, and none of `counts` counts them."""
    with ExitStack() as stack:

        def replace(module):
            cls, functions = module.MemoryMappedTensor, _Unmapped(counts)
            for name in ("from_tensor", "from_filename"):
                stack.enter_context(patch.object(cls, name, getattr(functions, name)))

        if MODULE in sys.modules:
            replace(sys.modules[MODULE])
        else:
            stack.enter_context(_after_import(replace))
        yield


class _Unmapped:
    def __init__(self, counts: list[StorageCount]):
        self._counts = counts

    def from_tensor(self, input, *, filename=None, shape=None, **_):
        return self._empty(shape or input.shape, input.dtype, filename)

    def from_filename(self, filename, dtype, shape, index=None):
        tensor = self._empty(shape, dtype, filename)
        return tensor if index is None else tensor[index]

    def _empty(self, shape, dtype, filename):
        with ExitStack() as stack:
            for count in self._counts:
                stack.enter_context(count.leaving_out())
            tensor = torch.empty(shape, dtype=dtype, device="cpu")
        tensor.filename = filename
        note("memory-mapped tensors are left out: they are files, and need memory only as a cache")
        return tensor


@contextmanager
def _after_import(change):
    """Call `change(module)` once the module has been imported."""
    finder = _Finder(change)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder:
    def __init__(self, change):
        self._change = change

    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            self._change(module)

        spec.loader.exec_module = execute_and_change
        return spec
