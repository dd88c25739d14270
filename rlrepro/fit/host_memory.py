"""Counts the arrays of a dry run, such as a replay buffer's. Large ones take no memory."""

import sys
import weakref
from contextlib import ExitStack
from types import ModuleType
from unittest.mock import patch

import numpy as np

from rlrepro.fit.zero_memory_tensors import BlankArray

LARGE, COUNTED = 2**20, 2**14  # bytes from which an array is blank, and from which it is counted
CONSTRUCTORS = {name: getattr(np, name) for name in ("zeros", "empty", "ones", "full")}
COMPILED = ("scipy.", "sklearn.")  # packages whose compiled code reads and writes an array's memory


class HostArrays:
    """In this context, np.zeros and similar functions return blank arrays in place of large ones. np.random and SciPy
    get real arrays, which their compiled code fills."""

    def __init__(self):
        self.live_bytes = self.peak_bytes = 0

    def __enter__(self):
        self._stack, real_numpy = ExitStack(), ModuleType("numpy")
        vars(real_numpy).update(vars(np))
        for name in CONSTRUCTORS:
            setattr(real_numpy, name, self._counting_constructor(name, blank=False))
        for module in vars(np.random).values():
            if isinstance(module, ModuleType) and hasattr(module, "np"):
                self._stack.enter_context(patch.object(module, "np", real_numpy))
        for name in CONSTRUCTORS:
            self._stack.enter_context(patch.object(np, name, self._counting_constructor(name)))

    def __exit__(self, *raised):
        self._stack.close()

    def _counting_constructor(self, name: str, *, blank: bool = True):
        constructor = CONSTRUCTORS[name]

        def create(shape, *args, **kwargs):
            arguments = (
                dict(zip(("fill_value", "dtype") if name == "full" else ("dtype",), args, strict=False)) | kwargs
            )
            fill_value = arguments.get("fill_value")
            dtype = np.dtype(arguments.get("dtype") or (float if fill_value is None else np.asarray(fill_value).dtype))
            sizes = tuple(int(size) for size in np.atleast_1d(np.asarray(shape, dtype=object)))
            size = int(np.prod(sizes, dtype=object)) * dtype.itemsize
            if size < COUNTED or dtype.hasobject:
                return constructor(shape, *args, **kwargs)
            is_blank = (
                blank and size >= LARGE and not sys._getframe(1).f_globals.get("__name__", "").startswith(COMPILED)
            )
            array = BlankArray(sizes, dtype) if is_blank else constructor(shape, *args, **kwargs)
            self.live_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            weakref.finalize(array, self._free, size)
            return array

        return create

    def _free(self, size: int) -> None:
        self.live_bytes -= size
