"""Counts the arrays of a dry run, such as a replay buffer's. Large ones take no memory."""

import sys
import weakref
from contextlib import ExitStack
from types import ModuleType
from unittest.mock import patch

import numpy as np

from rlrepro.fit.zero_memory_tensors import BlankArray

LARGE, COUNTED = 2**20, 2**14  # bytes from which on an array is blank, and counted
MAKERS = {name: getattr(np, name) for name in ("zeros", "empty", "ones", "full")}
COMPILED = ("scipy.", "sklearn.")  # whose compiled code reads and writes an array's memory


class HostArrays:
    """In this context, np.zeros and the like return blank arrays where they would be large. np.random and SciPy get
    real ones, which their compiled code fills."""

    def __init__(self):
        self.live_bytes = self.peak_bytes = 0

    def __enter__(self):
        self._stack, real = ExitStack(), ModuleType("numpy")
        vars(real).update(vars(np))
        for name in MAKERS:
            setattr(real, name, self._counted(name, blank=False))
        for name, module in list(sys.modules.items()):
            if name.startswith("numpy.random.") and hasattr(module, "np"):
                self._stack.enter_context(patch.object(module, "np", real))
        for name in MAKERS:
            self._stack.enter_context(patch.object(np, name, self._counted(name)))

    def __exit__(self, *raised):
        self._stack.close()

    def _counted(self, name: str, *, blank: bool = True):
        function = MAKERS[name]

        def create(shape, *args, **kwargs):
            given = dict(zip(("fill_value", "dtype") if name == "full" else ("dtype",), args, strict=False)) | kwargs
            fill = given.get("fill_value")
            dtype = np.dtype(given.get("dtype") or (float if fill is None else np.asarray(fill).dtype))
            sizes = tuple(int(size) for size in np.atleast_1d(np.asarray(shape, dtype=object)))
            size = int(np.prod(sizes, dtype=object)) * dtype.itemsize
            if size < COUNTED or dtype.hasobject:
                return function(shape, *args, **kwargs)
            is_blank = (
                blank and size >= LARGE and not sys._getframe(1).f_globals.get("__name__", "").startswith(COMPILED)
            )
            array = BlankArray(sizes, dtype) if is_blank else function(shape, *args, **kwargs)
            self.live_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            weakref.finalize(array, self._free, size)
            return array

        return create

    def _free(self, size: int) -> None:
        self.live_bytes -= size
