"""Follows what a dry run assumes about values, that all numbers are finite, through what is computed from it."""

from math import isinf

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from rlrepro.fit.marks import chosen_branch

KNOWN = "rlrepro_known"  # on a fake tensor: the value of all its elements
ATEN = torch.ops.aten
READS = ATEN._local_scalar_dense, ATEN.item, ATEN.is_nonzero  # the last two in inference mode
ANY = ATEN.any, ATEN._is_any_true  # anomaly detection uses the second
OF_FINITE = {ATEN.isnan: False, ATEN.isinf: False, ATEN.isfinite: True}
OF_ITSELF = {ATEN.eq: True, ATEN.ne: False}  # x == x, x != x
COMPARISONS = ATEN.eq, ATEN.ne, ATEN.lt, ATEN.le, ATEN.gt, ATEN.ge
KEEPING = ATEN.all, ATEN.amax, ATEN.amin, ATEN.max, ATEN.min, ATEN.mean, ATEN._to_copy, ATEN.clone
SUMS = ATEN.sum, ATEN.count_nonzero


def read(operator, tensor: torch.Tensor):
    """What `.item()` returns: the known value, otherwise True or one. `rlrepro.fit.reads` overrides it."""
    default = 1.0 if tensor.is_floating_point() else tensor.dtype is torch.bool or 1
    value = chosen_branch(getattr(tensor, KNOWN, default))
    return bool(value) if operator is ATEN.is_nonzero else value


def follow(func, args, kwargs, result) -> None:
    """Keep what is known about the result of an operator."""
    if func.overloadpacket is ATEN._amp_foreach_non_finite_check_and_unscale_:
        setattr(args[1], KNOWN, 0.0)  # no gradient has overflowed
    if not isinstance(result, torch.Tensor):
        return
    value = _value(func, args, kwargs, result)
    if value is not None:
        convert = float if result.is_floating_point() else bool if result.dtype is torch.bool else int
        setattr(result, KNOWN, convert(value))
    elif hasattr(result, KNOWN):  # the operator has changed it
        delattr(result, KNOWN)


def _value(func, args, kwargs, result):
    operator, tensor = func.overloadpacket, args[0] if args else None
    known = getattr(tensor, KNOWN, None)
    if operator in OF_FINITE:
        return OF_FINITE[operator]
    if operator in OF_ITSELF and tensor is args[1]:
        return OF_ITSELF[operator]
    if operator in COMPARISONS and isinstance(args[1], float) and isinf(args[1]):
        return _on_numbers(func, (tensor, args[1]), lambda _: 0)
    if operator in ANY:
        return bool(known)
    if known is None:
        return None
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if len(tensors) == 1 and (operator in KEEPING or func.is_view):
        return known
    if operator in SUMS:
        return known * (tensor.numel() // max(1, result.numel()))
    if torch.Tag.pointwise in func.tags and all(hasattr(leaf, KNOWN) for leaf in tensors):
        return _on_numbers(func, args, lambda leaf: getattr(leaf, KNOWN), **kwargs)
    return None


def _on_numbers(func, args, number, **kwargs):
    """The value of `func`, with `number(tensor)` in place of each tensor."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        args, kwargs = tree_map_only(
            torch.Tensor, lambda leaf: torch.full((), number(leaf), dtype=leaf.dtype), (args, kwargs)
        )
        return func(*args, **kwargs).item()
