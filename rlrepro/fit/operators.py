"""What fake tensors can't tell of an operator, measured on the machine at hand: what it takes for itself on the way (the
workspace of a convolution), and results whose size only the operator knows (the workspace that an LSTM keeps).

An operator is run at two small numbers of rows. Both grow with the rows in a straight line, and are known from there
for any number of them.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rlrepro.lab.memory import peak_memory

FEW, MORE = 16, 32  # rows


@dataclass(frozen=True)
class _Call:
    """An operator's call: the sizes of its tensors and results, one after the other, and the bytes it took on top."""

    func: object
    sizes: tuple[int, ...]
    results: tuple[int, ...]
    taken: int


@dataclass(frozen=True)
class _Line:
    """The same call with FEW and with MORE rows."""

    few: _Call
    more: _Call

    def step(self, sizes: tuple[int, ...]) -> Fraction | None:
        """How far on the way from FEW (0) to MORE (1) and beyond these sizes are; None where they are not of this
        call with another number of rows."""
        if len(sizes) != len(self.few.sizes):
            return None
        step = None
        for few, more, size in zip(self.few.sizes, self.more.sizes, sizes, strict=True):
            if few == more:
                if size != few:
                    return None
            else:
                found = Fraction(size - few, more - few)
                if step is not None and found != step:
                    return None
                step = found
        return step

    def taken(self, step: Fraction) -> int:
        return max(0, round(self.few.taken + (self.more.taken - self.few.taken) * step))

    def results(self, step: Fraction) -> tuple[int, ...]:
        pairs = zip(self.few.results, self.more.results, strict=True)
        return tuple(round(few + (more - few) * step) for few, more in pairs)


class OperatorMemory:
    """Bytes that operators take on top of their results, and the sizes of results. Nothing is known of an operator
    that was not measured."""

    def __init__(self):
        self._lines = defaultdict(list)
        self._found = {}

    def learn(self, rehearse: Callable[[int], None], device: torch.device) -> "OperatorMemory":
        """Run `rehearse(rows)` for real, twice, and measure each operator in it."""
        few, more = (_watch(rehearse, rows, device) for rows in (FEW, MORE))
        for line in map(_Line, few, more):
            comparable = line.few.func is line.more.func and len(line.few.sizes) == len(line.more.sizes)
            if comparable and len(line.few.results) == len(line.more.results) and line not in self._lines[line.few.func]:
                self._lines[line.few.func].append(line)
        return self

    @property
    def is_known(self) -> bool:
        """Whether anything was measured."""
        return bool(self._lines)

    def taken(self, func, args) -> int:
        """Bytes that `func(*args)` takes on top of its results; only the sizes of `args` are looked at."""
        return max((line.taken(step) for line, step in self._matching(func, args)), default=0)

    def results(self, func, args) -> tuple[int, ...] | None:
        """The sizes of its results, one after the other; None where the operator was not measured."""
        return next((line.results(step) for line, step in self._matching(func, args)), None)

    def _matching(self, func, args):
        if func not in self._lines:
            return []
        key = func, sizes_of(args)
        if key not in self._found:
            steps = [(line, line.step(key[1])) for line in self._lines[func]]
            self._found[key] = [(line, step) for line, step in steps if step is not None]
        return self._found[key]


def sizes_of(values) -> tuple[int, ...]:
    """The sizes of all tensors in `values`, one after the other, with the whole numbers and flags among them; first
    whether gradients are on, since some operators keep more then."""
    sizes = [int(torch.is_grad_enabled())]
    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            sizes.extend(leaf.shape)
        elif isinstance(leaf, int):
            sizes.append(int(leaf))
    return tuple(sizes)


def _watch(rehearse, rows, device) -> list[_Call]:
    with _Watch(device) as watch:
        rehearse(rows)
    return watch.calls


class _Watch(TorchDispatchMode):
    """Measures each operator the first time it meets these sizes."""

    def __init__(self, device):
        super().__init__()
        self.device, self.calls, self._taken = device, [], {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        key = func, sizes_of(args)
        results = []

        def call():
            results.append(func(*args, **(kwargs or {})))

        if torch.Tag.pointwise in func.tags or func.is_view:  # these take nothing
            self._taken[key] = 0
        if key in self._taken:
            call()
        else:
            memory = peak_memory(call, device=str(self.device), warmup=0)
            self._taken[key] = memory.peak_bytes - max(0, memory.held_bytes)
        self.calls.append(_Call(*key, sizes_of(results)[1:], self._taken[key]))
        return results[0]
