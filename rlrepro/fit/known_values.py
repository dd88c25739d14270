"""A dry run assumes that all numbers are finite; this module follows that through what is computed from them."""

from contextlib import contextmanager
from math import isinf
from operator import attrgetter

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from rlrepro.fit.marks import chosen_branch, note
from rlrepro.fit.user_code import own_line

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
    value = chosen_branch(getattr(tensor, KNOWN, None))
    if value is None:
        value = default
        if type(value) is int:
            note(
                f"a whole number read from a tensor is taken to be 1, even if it is a size: {own_line()}\n"
                "      rlrepro.fit.reads(value) sets another value"
            )
    return bool(value) if operator is ATEN.is_nonzero else value


def follow(func, args, kwargs, result) -> None:
    """Keep what is known about the result of an operator."""
    if func.overloadpacket is ATEN._amp_foreach_non_finite_check_and_unscale_:
        setattr(args[1], KNOWN, 0.0)  # no gradient has overflowed
    if result is None and args and isinstance(args[0], list | tuple):  # such as _foreach_add_
        _follow_changes(func, args, kwargs)
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
    if operator is ATEN.lift_fresh and type(tensor) is torch.Tensor and not tensor.dim():  # torch.tensor(1.0)
        return _on_numbers(func, args, torch.Tensor.item)
    if operator in OF_FINITE:
        return OF_FINITE[operator]
    if operator in OF_ITSELF and tensor is args[1]:
        return OF_ITSELF[operator]
    if operator in COMPARISONS and isinstance(args[1], float) and isinf(args[1]):
        return _on_numbers(func, (tensor, args[1]), lambda _: 0)
    if operator in ANY and (known is not None or tensor.dtype is torch.bool):  # a guard; numbers are not all zero
        return bool(known)
    if known is None:
        return None
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if len(tensors) == 1 and (operator in KEEPING or func.is_view):
        return known
    if operator in SUMS:
        return known * (tensor.numel() // max(1, result.numel()))
    if torch.Tag.pointwise in func.tags and all(hasattr(leaf, KNOWN) for leaf in tensors):
        return _on_numbers(func, args, **kwargs)
    return None


def _follow_changes(func, args, kwargs) -> None:
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if all(hasattr(leaf, KNOWN) for leaf in leaves):
        with _numbers(args, kwargs) as (numbers, options):
            func(*numbers, **options)
            values = [number.item() for number in numbers[0]]
        for tensor, value in zip(args[0], values, strict=True):
            setattr(tensor, KNOWN, value)
    else:
        for tensor in args[0]:
            vars(tensor).pop(KNOWN, None)


def _on_numbers(func, args, number=attrgetter(KNOWN), **kwargs):
    """The value of `func`, with `number(tensor)` in place of each tensor."""
    with _numbers(args, kwargs, number) as (args, kwargs):
        return func(*args, **kwargs).item()


@contextmanager
def _numbers(args, kwargs, number=attrgetter(KNOWN)):
    """Arguments with a tensor of `number(tensor)` in place of each tensor, in a context where torch computes them."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield tree_map_only(
            torch.Tensor, lambda leaf: torch.full((), number(leaf), dtype=leaf.dtype), (list(args), kwargs)
        )
