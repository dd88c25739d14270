"""What fake tensors can't tell of an operator, measured on the machine at hand.

That is what it takes for itself on the way (the workspace of a convolution), and results whose size only the operator
knows (the workspace that an LSTM keeps).

An operator is run at two small numbers of rows. Both grow with the rows in a straight line, and are known from there
for any number of them.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from rlrepro.lab.memory import peak_memory

ROWS = {"cpu": (8, 16), "cuda": (64, 128)}  # few and more: a card's libraries choose other algorithms for very few


@dataclass(frozen=True)
class _Call:
    """An operator's call: the sizes of its tensors and results, one after the other, and the bytes it took on top."""

    sizes: tuple[int, ...]
    results: tuple[int, ...]
    taken: int


@dataclass(frozen=True)
class _Line:
    """The same call with few and with more rows."""

    few: _Call
    more: _Call

    @property
    def is_one(self) -> bool:
        """Whether both are calls of the same kind."""
        return len(self.few.sizes) == len(self.more.sizes) and len(self.few.results) == len(self.more.results)

    @property
    def takes(self) -> bool:
        return bool(self.few.taken or self.more.taken)

    def step(self, sizes: tuple[int, ...]) -> Fraction | None:
        """How far on the way from few (0) to more (1) and beyond these sizes are; None where they are not of this
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
        self._lines, self._taking = {}, {}  # by operator: all of it, and what takes memory
        self._taken = {}
        self.workspaces = 0  # bytes that the card's libraries keep from their first use on

    def learn(self, update: Callable[[int, int], None], rehearsal) -> "OperatorMemory":
        """Do `update(rows, rows)` for real, twice, and measure each operator that the rehearsal lets through."""
        try:
            few, more = (_calls(update, rehearsal, rows) for rows in ROWS[rehearsal.device.type])
        except torch.OutOfMemoryError:  # by a large network on a card
            few, more = (_calls(update, rehearsal, rows) for rows in ROWS["cpu"])
        for func in few.keys() & more.keys():
            if len(few[func]) == len(more[func]):  # otherwise it is called once for each row, or so
                lines = map(_Line, few[func], more[func])
                self._lines[func] = [line for line in dict.fromkeys(lines) if line.is_one]
        taking = {func: [line for line in lines if line.takes] for func, lines in self._lines.items()}
        self._taking = {func: lines for func, lines in taking.items() if lines}
        self.workspaces = _workspaces(rehearsal.device)
        return self

    @property
    def is_known(self) -> bool:
        """Whether anything was measured."""
        return bool(self._lines)

    def taken(self, func, args) -> int:
        """Bytes that `func(*args)` takes on top of its results; only the sizes of `args` are looked at."""
        if func not in self._taking:
            return 0
        key = func, sizes_of(args)
        if key not in self._taken:
            self._taken[key] = max(
                (line.taken(step) for line, step in _matching(self._taking[func], key[1])), default=0
            )
        return self._taken[key]

    def results(self, func, args) -> tuple[int, ...] | None:
        """The sizes of its results, one after the other; None where the operator was not measured."""
        found = _matching(self._lines.get(func, ()), sizes_of(args))
        return next((line.results(step) for line, step in found), None)


def _calls(update, rehearsal, rows: int) -> dict:
    """The calls of each operator in an update of so many rows."""
    rehearsal.watch = _Watch(rehearsal.device)
    update(rows, rows)
    return rehearsal.watch.calls


def _workspaces(device: torch.device) -> int:
    """Bytes of a card that cuBLAS keeps: a workspace for each thread that has used it, and backward passes have their
    own."""
    if device.type != "cuda":
        return 0
    before = torch.cuda.memory_allocated(device)
    torch._C._cuda_clearCublasWorkspaces()  # they come back when they are needed
    return before - torch.cuda.memory_allocated(device)


def _matching(lines, sizes):
    """Those of the lines that these sizes lie on, and how far on them."""
    steps = ((line, line.step(sizes)) for line in lines)
    return [(line, step) for line, step in steps if step is not None]


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


class _Watch(TorchDispatchMode):
    """Measures each operator the first time it meets these sizes. One that took memory of its own (a convolution: the
    slow ones do) is not computed again, since the numbers do not matter: its first result serves."""

    def __init__(self, device):
        super().__init__()
        self.device, self.calls = device, defaultdict(list)
        self._taken, self._results = {}, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        key = func, sizes_of(args)

        def call():
            return func(*args, **(kwargs or {}))

        if key in self._results:
            result = tree_map_only(torch.Tensor, torch.clone, self._results[key])
        elif key in self._taken or torch.Tag.pointwise in func.tags or func.is_view:
            result = call()
        else:
            result, self._taken[key] = self._measured(call)
            is_real = all(each.is_floating_point() for each in tree_leaves(result) if isinstance(each, torch.Tensor))
            if self._taken[key] and is_real and not func._schema.is_mutable:
                self._results[key] = tree_map_only(torch.Tensor, torch.clone, result)
        self.calls[func].append(_Call(key[1], sizes_of(result)[1:], self._taken.get(key, 0)))
        return result

    def _measured(self, call):
        results = []
        memory = peak_memory(lambda: results.append(call()), device=str(self.device), warmup=0)
        return results[0], memory.peak_bytes - max(0, memory.held_bytes)
