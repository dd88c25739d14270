"""Measures on this machine what fake tensors don't show about an operator: the memory that it needs while it runs (the
workspace of a convolution), and the size of results that only the operator knows (the workspace that an LSTM keeps).

Each operator is run with two small numbers of rows. Its memory grows linearly with the rows, so it can be extrapolated
to any number of rows. For recurrent layers, it grows in steps, so these layers are measured alone, at the size in
question, as are the sizes of results.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from rlrepro.fit.gpu_estimates import CONVOLUTIONS, estimated
from rlrepro.fit.matrix_products import NONE, workspace_bytes, workspaces
from rlrepro.fit.measured_alone import (
    DIRECT_LIMIT,
    RECURRENT,
    ROWS,
    MeasuredAlone,
    run_and_measure,
    sizes_of,
    total_bytes,
)


@dataclass(frozen=True)
class _Call:
    """An operator's call: the sizes of its arguments, flattened, and the bytes it needed on top of its results."""

    sizes: tuple[int, ...]
    temporary_bytes: int


@dataclass(frozen=True)
class _Line:
    """The same call with a small and with a large number of rows, to extrapolate from."""

    small: _Call
    large: _Call

    @property
    def has_temporaries(self) -> bool:
        """Whether either call needed bytes on top of its results. Lines whose calls can't be compared have none."""
        is_comparable = len(self.small.sizes) == len(self.large.sizes)
        return is_comparable and bool(self.small.temporary_bytes or self.large.temporary_bytes)

    def bytes_at(self, sizes: tuple[int, ...]) -> int:
        """The bytes that the call needs with these sizes; 0 if they are not its own with another number of rows."""
        if len(sizes) != len(self.small.sizes):
            return 0
        triples = list(zip(self.small.sizes, self.large.sizes, sizes, strict=True))
        if any(small == large != size for small, large, size in triples):
            return 0
        steps = {Fraction(size - small, large - small) for small, large, size in triples if small != large}
        if len(steps) != 1:
            return 0
        small, large = self.small.temporary_bytes, self.large.temporary_bytes
        return max(0, round(small + (large - small) * steps.pop()))


class OperatorMemory:
    """The bytes that operators need on top of their results, and the sizes of their results. An operator that was not
    measured counts as needing nothing."""

    def __init__(self):
        self._lines = {}  # by operator: those that needed bytes on top of their results
        self._known_bytes = {}  # by operator and sizes
        self._alone = self._device = None  # measures recurrent layers; the device on which all others were measured
        self._on_card, self.estimated = None, frozenset()  # measures convolutions on a GPU; the estimated operators
        self.workspace_bytes, self.workspaces = NONE, frozenset()  # by library; those that the update uses

    def measure(self, update: Callable[[int, int], None], calibration, planned_for: str) -> None:
        """Run `update(rows, rows)` for real, twice, and measure each operator in it. `planned_for`: "cpu" or "cuda"."""
        try:
            small, large = (_calls(update, calibration, rows) for rows in ROWS[calibration.device.type])
        except torch.OutOfMemoryError:  # a large network on a GPU
            small, large = (_calls(update, calibration, rows) for rows in ROWS["cpu"])
        for func in small.keys() & large.keys():
            if len(small[func]) == len(large[func]):  # otherwise, the number of calls depends on the rows
                lines = dict.fromkeys(map(_Line, small[func], large[func]))
                self._lines[func] = [line for line in lines if line.has_temporaries]
        self.workspace_bytes, self.workspaces = workspace_bytes(planned_for), frozenset(calibration.watch.workspaces)
        self._device = calibration.device
        self._alone = MeasuredAlone(torch.device("cpu"))
        self._on_card = MeasuredAlone(self._device) if self._device.type == "cuda" else None
        self.estimated = estimated(planned_for, self._device)

    def temporary_bytes(self, func, args, kwargs=None) -> int:
        """The bytes that `func(*args)` needs on top of its results, by the sizes of `args`."""
        if func in RECURRENT and self._alone:
            return self._alone.temporary_bytes(func, args, kwargs)
        if func in CONVOLUTIONS and self._on_card:
            return self._on_card.temporary_bytes(func, args, kwargs)
        if not self._lines.get(func):
            return 0
        key = func, sizes_of(args)
        if key not in self._known_bytes:
            needed = max(line.bytes_at(key[1]) for line in self._lines[func])
            if self._device.type == "cpu" and total_bytes((args, kwargs)) <= DIRECT_LIMIT:
                # the rounding of libraries is a considerable part of so few bytes
                needed = max(needed, self._alone.temporary_bytes(func, args, kwargs))
            self._known_bytes[key] = needed
        return self._known_bytes[key]

    def results(self, func, args, kwargs=None) -> tuple[int, ...] | None:
        """The sizes of its results, flattened; None if the operator can't be measured."""
        return self._alone and self._alone.results(func, args, kwargs)


def _calls(update, calibration, rows: int) -> dict:
    """The calls of each operator in an update of that many rows."""
    calibration.watch = _Measuring(calibration.device)
    update(rows, rows)
    return calibration.watch.calls


class _Measuring(TorchDispatchMode):
    """Measures each operator at its first call with given sizes. One that needed temporary memory, as slow ones
    such as convolutions do, is not computed again: values do not matter here, so its first result is reused."""

    def __init__(self, device):
        super().__init__()
        self.device, self.calls, self.workspaces = device, defaultdict(list), set()
        self._temporary_bytes, self._results = {}, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        key = func, sizes_of(args)

        def call():
            return func(*args, **(kwargs or {}))

        self.workspaces |= workspaces(func)
        if func.namespace == "profiler":  # marks of an optimizer: torch fails if its profiler ends between two of them
            return call()
        if key in self._results:
            result = tree_map_only(torch.Tensor, torch.clone, self._results[key])
        elif key in self._temporary_bytes or torch.Tag.pointwise in func.tags or func.is_view:
            result = call()
        else:
            result, self._temporary_bytes[key] = run_and_measure(call, self.device)
            is_real = all(leaf.is_floating_point() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
            if self._temporary_bytes[key] and is_real and not func._schema.is_mutable:
                self._results[key] = tree_map_only(torch.Tensor, torch.clone, result)
        self.calls[func].append(_Call(key[1], self._temporary_bytes.get(key, 0)))
        return result
