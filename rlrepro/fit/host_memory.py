"""Counts the arrays of a dry run, such as a replay buffer's. Large ones take no memory."""

import weakref
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np

from rlrepro.fit.zero_memory_tensors import BlankArray

LARGE, COUNTED = 2**20, 2**14  # bytes from which on an array is blank, and counted


class HostArrays:
    """In this context, np.zeros and the like return blank arrays where they would be large."""

    def __init__(self):
        self.live_bytes = self.peak_bytes = 0

    def __enter__(self):
        self._stack = ExitStack()
        for name in ("zeros", "empty", "ones", "full"):
            self._stack.enter_context(patch.object(np, name, self._counted(getattr(np, name), name)))

    def __exit__(self, *raised):
        self._stack.close()

    def _counted(self, function, name: str):
        def create(shape, *args, **kwargs):
            given = dict(zip(("fill_value", "dtype") if name == "full" else ("dtype",), args, strict=False)) | kwargs
            fill = given.get("fill_value")
            dtype = np.dtype(given.get("dtype") or (float if fill is None else np.asarray(fill).dtype))
            sizes = tuple(int(size) for size in np.atleast_1d(np.asarray(shape, dtype=object)))
            size = int(np.prod(sizes, dtype=object)) * dtype.itemsize
            if size < COUNTED or dtype.hasobject:
                return function(shape, *args, **kwargs)
            array = function(shape, *args, **kwargs) if size < LARGE else BlankArray(sizes, dtype)
            self.live_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            weakref.finalize(array, self._free, size)
            return array

        return create

    def _free(self, size: int) -> None:
        self.live_bytes -= size
