"""A replacement for torchrl's extension, whose trees keep the priorities: the extension loads only with the torch that
it was built for. A process finds it if this folder is on its PYTHONPATH."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec

import numpy as np

MODULE = "torchrl._torchrl"


class Tree:
    """Values by index, with reductions of ranges. It takes time in proportion to its size, which is small in tests."""

    reduce, empty = staticmethod(np.sum), 0.0

    def __init__(self, size):
        self.values = np.full(size, self.empty, dtype=self.dtype)

    def __getitem__(self, index):
        return self.values[np.asarray(index)]

    def __setitem__(self, index, value):
        self.values[np.asarray(index)] = np.asarray(value)

    def query(self, begin, end):
        return self.reduce(self.values[begin:end])

    def scan_lower_bound(self, mass):
        return np.searchsorted(self.values.cumsum(), np.asarray(mass))


class MinTree(Tree):
    reduce = staticmethod(np.min)

    @property
    def empty(self):
        return np.finfo(self.dtype).max


sys.modules[MODULE] = module_from_spec(ModuleSpec(MODULE, loader=None))
for name, cls in (("Sum", Tree), ("Min", MinTree)):
    for precision, dtype in (("Fp32", np.float32), ("Fp64", np.float64)):
        tree = f"{name}SegmentTree{precision}"
        setattr(sys.modules[MODULE], tree, type(tree, (cls,), {"dtype": dtype}))
