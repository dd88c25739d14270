"""Measures what operators of a dry run need on top of their results: each runs once for real, alone, on a few rows."""

from collections.abc import Callable
from fractions import Fraction

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from rlrepro.fit.matrix_products import NONE
from rlrepro.fit.real_card import real_card
from rlrepro.lab.memory import peak_memory

ROWS = {"cpu": (8, 16), "cuda": (64, 128)}  # small and large: on a GPU, libraries choose other algorithms for very few
DIRECT_LIMIT = 8 * 2**20  # bytes: larger arguments are cut to a few rows, and what they need is extrapolated
SHARE_OF_FREE = 0.25  # the same on a GPU, where libraries choose by the size, and an operator takes milliseconds
RNN, RNN_BACKWARD = torch.ops.aten.mkldnn_rnn_layer.default, torch.ops.aten.mkldnn_rnn_layer_backward.default
RECURRENT = {RNN: (128, 256), RNN_BACKWARD: (128, 256)}  # rows: with fewer, a workspace is mostly rounding
FUSED_LAYER, MASK = torch.ops.aten._transformer_encoder_layer_fwd.default, 18  # the position of its mask
ROWS_IN_DIM = {  # for operators whose rows are not their longest dimension
    torch.ops.aten.convolution.default: 0,
    torch.ops.aten.convolution_backward.default: 0,
    RNN: 1,
    RNN_BACKWARD: 1,
    FUSED_LAYER: 0,
}
UNMEASURED = ("_local_scalar_dense", "_foreach", "_fused", "empty", "detach", "lift_fresh", "copy_", "_to_copy")


class MeasuredAlone:
    """Has the interface of OperatorMemory. An operator that can't be run alone counts as needing nothing."""

    workspaces = frozenset()  # of matrix products: an update of one's own is run in order, so that DryRun sees them

    def __init__(self, device: torch.device, casts: bool = False):
        """`casts`: whether pointwise operators need memory to cast arguments of different dtypes, as on a CPU."""
        self.device, self.workspace_bytes = torch.device(device), NONE
        self.estimated = frozenset()  # operators that are estimated instead
        self._casts, self._cases = casts, {}  # (operator, sizes) -> (temporary bytes, sizes of the results)

    def temporary_bytes(self, func, args, kwargs=None) -> int:
        """The bytes that `func(*args, **kwargs)` needs on top of its results."""
        tags, name = func.tags, func.overloadpacket.__name__
        is_free = torch.Tag.pointwise in tags and not (self._casts and _has_mixed_dtypes(args))
        if is_free or func.is_view or name.startswith(UNMEASURED):
            return 0
        return self._case(func, args, kwargs or {})[0]

    def results(self, func, args, kwargs=None) -> tuple[int, ...] | None:
        """The sizes of its results, flattened; None if it can't be run."""
        return self._case(func, args, kwargs or {})[1]

    def _case(self, func, args, kwargs):
        key = func, sizes_of((args, kwargs))
        if key not in self._cases:
            self._cases[key] = self._extrapolate(func, args, kwargs)
        return self._cases[key]

    def _extrapolate(self, func, args, kwargs):
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not tensors:
            return 0, None
        largest = max(tensors, key=torch.Tensor.numel)
        dim, counts = ROWS_IN_DIM.get(func), RECURRENT.get(func, ROWS["cpu"])
        rows = max(largest.shape, default=1) if dim is None else tensors[0].shape[dim]
        is_small = total_bytes(tensors) <= self._direct_limit()
        if is_small and (func not in RECURRENT or rows <= counts[1]):
            return self._run(func, args, kwargs)
        resize = _cut_sequences if func in RECURRENT else _cut_batch if func is FUSED_LAYER else _cut
        if rows <= counts[1]:
            counts = ROWS["cpu"]
        small, large = (self._run(func, *resize((args, kwargs), rows, count, dim)) for count in counts)
        if small[1] is None or large[1] is None or len(small[1]) != len(large[1]):
            return 0, None
        fraction = Fraction(rows - counts[0], counts[1] - counts[0])
        temporary, *sizes = (
            max(0, round(a + (b - a) * fraction))
            for a, b in zip((small[0], *small[1]), (large[0], *large[1]), strict=True)
        )
        return temporary, tuple(sizes)

    def _direct_limit(self) -> int:
        if self.device.type == "cpu":
            return DIRECT_LIMIT
        with real_card():
            return int(SHARE_OF_FREE * torch.cuda.mem_get_info(self.device)[0])

    def _run(self, func, args, kwargs):
        key = func, "alone", sizes_of((args, kwargs))
        if key not in self._cases:
            self._cases[key] = self._measure(func, args, kwargs)
        return self._cases[key]

    def _measure(self, func, args, kwargs):
        try:
            with _disable_current_modes(), torch._C.DisableTorchFunction(), real_card():
                args, kwargs = tree_map_only(torch.Tensor, self._materialize, (args, kwargs))
                if func is RNN_BACKWARD:
                    args = _with_workspace(*args)
                result, temporary = run_and_measure(lambda: func(*args, **kwargs), self.device)
        except Exception:
            return 0, None
        return temporary, sizes_of(result)[1:]

    def _materialize(self, tensor):
        real = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self.device)
        return real.fill_(1 if tensor.is_floating_point() or tensor.dtype is torch.bool else 0)


def _with_workspace(*args):
    """The arguments of RNN_BACKWARD with the workspace of a real forward pass. oneDNN does not check it, and reads
    outside its memory if the workspace is made up."""
    tensors, (reverse, mode, hidden, layers, biases, _, bidirectional, sizes, batch_first) = args[:7], args[13:22]
    with torch.enable_grad():  # otherwise, the forward pass returns none
        *_, workspace = RNN(*tensors, reverse, sizes, mode, hidden, layers, biases, bidirectional, batch_first, True)
    return (*args[:22], workspace)


def _cut(values, rows: int, count: int, dim: int | None):
    """These arguments with `count` rows in place of `rows`."""

    def cut_leaf(leaf):
        if isinstance(leaf, torch.Tensor):
            dims = range(leaf.dim()) if dim is None else [dim] if dim < leaf.dim() else []
            shape = [count if index in dims and size == rows else size for index, size in enumerate(leaf.shape)]
            return leaf if list(leaf.shape) == shape else _resized(leaf, shape)
        return count if type(leaf) is int and leaf == rows and dim is None else leaf

    return tree_map(cut_leaf, values)


def _cut_batch(values, rows: int, count: int, dim: int):
    """The same for FUSED_LAYER, of which only the first argument and a padding mask have rows."""
    args, kwargs = values
    has_rows = {0, MASK} if len(args) <= MASK + 1 or args[MASK + 1] else {0}  # a mask of type 0 is (steps, steps)
    args = [_cut(arg, rows, count, dim) if index in has_rows else arg for index, arg in enumerate(args)]
    return args, kwargs


def _cut_sequences(values, rows: int, count: int, dim: int):
    """The same for a recurrent layer, whose states (rows, hidden) have rows in another dimension than its sequences."""
    (sequence, *tensors), kwargs = values
    weights, remaining = tensors[:4], tensors[4:]
    states = [
        _cut(leaf, rows, count, 0 if isinstance(leaf, torch.Tensor) and leaf.dim() == 2 else dim) for leaf in remaining
    ]
    return (_cut(sequence, rows, count, dim), *weights, *states), kwargs


def _resized(tensor, shape):
    """A tensor of that shape whose dimensions have the same order in memory."""
    order = sorted(range(tensor.dim()), key=lambda dim: (-tensor.stride(dim), dim))
    contiguous = torch.empty([shape[dim] for dim in order], dtype=tensor.dtype, device="meta")
    return contiguous.permute([order.index(dim) for dim in range(tensor.dim())])


def run_and_measure(call: Callable, device: torch.device) -> tuple[object, int]:
    """The result of `call()`, and the bytes that it needed on top."""
    results = []
    memory = peak_memory(lambda: results.append(call()), device=str(device), warmup=0)
    return results[0], memory.peak_bytes - max(0, memory.held_bytes)


def sizes_of(values) -> tuple[int, ...]:
    """The sizes of all tensors in `values`, flattened, with the integers and flags among them. The first entry is
    whether gradients are on, since some operators then keep more."""
    sizes = [int(torch.is_grad_enabled())]
    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            sizes.extend(leaf.shape)
        elif isinstance(leaf, int):
            sizes.append(int(leaf))
    return tuple(sizes)


def _has_mixed_dtypes(args) -> bool:
    return len({leaf.dtype for leaf in args if isinstance(leaf, torch.Tensor)}) > 1


def total_bytes(values) -> int:
    """The bytes of all tensors in nested values."""
    leaves = tree_leaves(values)
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))
