"""Measures on this machine what fake tensors don't show about an operator.

That is the memory that it needs while it runs (the workspace of a convolution), and the size of results that only the
operator knows (the workspace that an LSTM keeps).

Each operator is run with two small numbers of rows. Both quantities grow linearly with the rows, so they can be
extrapolated to any number of rows. For recurrent layers, they grow in steps, so these layers are measured alone, at the
size in question.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from rlrepro.fit.measured_alone import DIRECT_LIMIT, RECURRENT, ROWS, MeasuredAlone, sizes_of, total_bytes
from rlrepro.lab.memory import peak_memory


@dataclass(frozen=True)
class _Call:
    """An operator's call: the sizes of its arguments and results, flattened, and the bytes it needed on top."""

    sizes: tuple[int, ...]
    results: tuple[int, ...]
    temporary_bytes: int


@dataclass(frozen=True)
class _Line:
    """The same call with a small and with a large number of rows, to extrapolate from."""

    small: _Call
    large: _Call

    @property
    def is_comparable(self) -> bool:
        """Whether both calls have the same number of sizes."""
        return len(self.small.sizes) == len(self.large.sizes) and len(self.small.results) == len(self.large.results)

    @property
    def has_temporaries(self) -> bool:
        return bool(self.small.temporary_bytes or self.large.temporary_bytes)

    def step(self, sizes: tuple[int, ...]) -> Fraction | None:
        """Where these sizes lie on the line from `small` (0) to `large` (1) and beyond; None if they are not those of
        this call with another number of rows."""
        if len(sizes) != len(self.small.sizes):
            return None
        step = None
        for small, large, size in zip(self.small.sizes, self.large.sizes, sizes, strict=True):
            if small == large:
                if size != small:
                    return None
            else:
                fraction = Fraction(size - small, large - small)
                if step not in (None, fraction):
                    return None
                step = fraction
        return step

    def temporary_bytes(self, step: Fraction) -> int:
        small, large = self.small.temporary_bytes, self.large.temporary_bytes
        return max(0, round(small + (large - small) * step))

    def results(self, step: Fraction) -> tuple[int, ...]:
        pairs = zip(self.small.results, self.large.results, strict=True)
        return tuple(round(small + (large - small) * step) for small, large in pairs)


class OperatorMemory:
    """The bytes that operators need on top of their results, and the sizes of their results. An operator that was not
    measured counts as needing nothing."""

    def __init__(self):
        self._lines = {}  # by operator
        self._lines_with_temporaries = {}
        self._known_bytes = {}  # by operator and sizes
        self._alone = self._device = None  # measures recurrent layers; the device on which all others were measured
        self.workspaces = 0  # bytes that the GPU's libraries keep from their first use on

    def measure(self, update: Callable[[int, int], None], calibration) -> None:
        """Run `update(rows, rows)` for real, twice, and measure each operator in it."""
        try:
            small, large = (_calls(update, calibration, rows) for rows in ROWS[calibration.device.type])
        except torch.OutOfMemoryError:  # a large network on a GPU
            small, large = (_calls(update, calibration, rows) for rows in ROWS["cpu"])
        for func in small.keys() & large.keys():
            if len(small[func]) == len(large[func]):  # otherwise, the number of calls depends on the rows
                lines = map(_Line, small[func], large[func])
                self._lines[func] = [line for line in dict.fromkeys(lines) if line.is_comparable]
        for func, lines in self._lines.items():
            if with_temporaries := [line for line in lines if line.has_temporaries]:
                self._lines_with_temporaries[func] = with_temporaries
        self._device, self.workspaces = calibration.device, _workspaces(calibration.device)
        self._alone = MeasuredAlone(torch.device("cpu"))

    @property
    def is_known(self) -> bool:
        """Whether anything was measured."""
        return bool(self._lines)

    def temporary_bytes(self, func, args, kwargs=None) -> int:
        """The bytes that `func(*args)` needs on top of its results, by the sizes of `args`."""
        if func in RECURRENT and self._alone:
            return self._alone.temporary_bytes(func, args, kwargs)
        if func not in self._lines_with_temporaries:
            return 0
        key = func, sizes_of(args)
        if key not in self._known_bytes:
            matches = _matching(self._lines_with_temporaries[func], key[1])
            extrapolated = max((line.temporary_bytes(step) for line, step in matches), default=0)
            self._known_bytes[key] = max(extrapolated, self._measure_alone(func, args, kwargs))
        return self._known_bytes[key]

    def _measure_alone(self, func, args, kwargs) -> int:
        """The same at exactly this size, if it is small. There, the rounding of libraries is a considerable part."""
        is_small = total_bytes((args, kwargs)) <= DIRECT_LIMIT and self._device.type == "cpu"
        return self._alone.temporary_bytes(func, args, kwargs) if is_small else 0

    def results(self, func, args, kwargs=None) -> tuple[int, ...] | None:
        """The sizes of its results, flattened; None if the operator was not measured."""
        if func in RECURRENT and self._alone:
            return self._alone.results(func, args, kwargs)
        matches = _matching(self._lines.get(func, ()), sizes_of(args))
        return next((line.results(step) for line, step in matches), None)


def _calls(update, calibration, rows: int) -> dict:
    """The calls of each operator in an update of that many rows."""
    calibration.watch = _Measuring(calibration.device)
    update(rows, rows)
    return calibration.watch.calls


def _workspaces(device: torch.device) -> int:
    """Bytes of GPU memory that cuBLAS keeps: one workspace per thread that used it, and backward passes have their own
    thread."""
    if device.type != "cuda":
        return 0
    before = torch.cuda.memory_allocated(device)
    torch._C._cuda_clearCublasWorkspaces()  # they are allocated again when needed
    return before - torch.cuda.memory_allocated(device)


def _matching(lines, sizes):
    """The lines on which these sizes lie, each with the step."""
    steps = ((line, line.step(sizes)) for line in lines)
    return [(line, step) for line, step in steps if step is not None]


class _Measuring(TorchDispatchMode):
    """Measures each operator at its first call with given sizes. One that needed temporary memory, as slow ones
    such as convolutions do, is not computed again: values do not matter here, so its first result is reused."""

    def __init__(self, device):
        super().__init__()
        self.device, self.calls = device, defaultdict(list)
        self._temporary_bytes, self._results = {}, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        key = func, sizes_of(args)

        def call():
            return func(*args, **(kwargs or {}))

        if func.namespace == "profiler":  # marks of an optimizer: torch fails if its profiler ends between two of them
            return call()
        if key in self._results:
            result = tree_map_only(torch.Tensor, torch.clone, self._results[key])
        elif key in self._temporary_bytes or torch.Tag.pointwise in func.tags or func.is_view:
            result = call()
        else:
            result, self._temporary_bytes[key] = self._measure(call)
            is_real = all(leaf.is_floating_point() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
            if self._temporary_bytes[key] and is_real and not func._schema.is_mutable:
                self._results[key] = tree_map_only(torch.Tensor, torch.clone, result)
        self.calls[func].append(_Call(key[1], sizes_of(result)[1:], self._temporary_bytes.get(key, 0)))
        return result

    def _measure(self, call):
        results = []
        memory = peak_memory(lambda: results.append(call()), device=str(self.device), warmup=0)
        return results[0], memory.peak_bytes - max(0, memory.held_bytes)
