"""Evaluate networks on all pairs of states and actions, some actions at a time."""

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WORKING_SHARE = 0.25  # of the limit, for the chunk at work; the rest keeps activations for the backward pass
CPU_WORKING = 8 * 2**20  # bytes at most on a CPU, whose caches hold no more: larger chunks are slower
PROBED_ROWS = 8


def over_actions(networks: Sequence, states: torch.Tensor, actions: torch.Tensor, reduce: Callable) -> list:
    """`reduce(values, columns)` of each chunk of actions: `values` has a tensor (B, C) for each network, `columns` is
    the slice of the table that they belong to. `actions` are one table (A, d), or one for each state (B, A, d).

    Where gradients are recorded, activations are kept for the backward pass as far as the memory limit has room; later
    chunks are computed again there.
    """
    _check(networks, states, actions)
    count = actions.shape[-2]
    chunk, kept = _plan(networks, len(states), count, states.device, apart=actions.ndim == 3)
    in_states = [network.state_layer(states) for network in networks]  # (B, H) each

    def evaluate(features, columns, *in_states):
        values = [network.pairs(part, features) for network, part in zip(networks, in_states, strict=True)]
        return reduce(values, columns)

    results = []
    for number, start in enumerate(range(0, max(1, count), chunk)):
        columns = slice(start, start + chunk)
        given = actions[..., columns, :], columns, *in_states
        if torch.is_grad_enabled() and number >= kept:
            results.append(checkpoint(evaluate, *given, use_reentrant=False, preserve_rng_state=False))
        else:
            results.append(evaluate(*given))
    return results


def numbers_kept(layers: nn.Module, width: int) -> int:
    """How many numbers these layers keep for their backward pass, for each row of so many numbers."""
    layers = deepcopy(layers).requires_grad_(True)  # frozen ones would keep less
    weights = {weight.untyped_storage()._cdata for weight in layers.parameters()}
    kept = {}  # storage: its numbers

    def note(tensor):
        if (storage := tensor.untyped_storage())._cdata not in weights:
            kept[storage._cdata] = storage.nbytes() // tensor.element_size(), storage  # held, or its address is reused
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        like = next(layers.parameters())
        rows = torch.zeros(PROBED_ROWS, width, dtype=like.dtype, device=like.device, requires_grad=True)
        layers(rows + 0).sum()
    return sum(numbers for numbers, _ in kept.values()) // PROBED_ROWS


def _plan(networks, rows: int, count: int, device: torch.device, apart: bool) -> tuple[int, int]:
    """Actions at a time, and how many chunks keep their activations. `apart`: each row has a table of its own."""
    limit = min(network.memory_limit for network in networks)
    keeps = rows * sum(network.kept_bytes for network in networks)  # bytes an action
    works = keeps + (1.5 if apart else 1) * rows * max(network.gradient_bytes for network in networks)
    chosen = [network.chunk for network in networks if network.chunk != "auto"]
    working = int(WORKING_SHARE * limit)
    if device.type == "cpu":
        working = max(min(working, CPU_WORKING), min(working, works))
    chunk = min(chosen) if chosen else int(working // max(works, 1))
    chunk = min(chunk, count) if count else 1
    if chunk < 1 or chunk * works > limit:
        chunk = max(chunk, 1)
        raise ValueError(
            f"{chunk} action{'s' if chunk > 1 else ''} at a time for {rows} states takes {chunk * works:,} bytes, more "
            f"than {'' if chosen else f'{WORKING_SHARE:.0%} of '}memory_limit={limit:,}: raise it, or take smaller "
            f"{'chunks or batches' if chosen else 'batches'}"
        )
    return chunk, int((limit - chunk * works) // max(chunk * keeps, 1))


def _check(networks, states, actions) -> None:
    like = networks[0].state_layer.weight
    for name, tensor, width in (
        ("states", states, networks[0].state_dim),
        ("actions", actions if actions.ndim == 2 else actions.flatten(end_dim=-2), networks[0].action_dim),
    ):
        if tensor.ndim != 2 or tensor.shape[1] != width:
            raise ValueError(f"{name} must be of shape (count, {width}), found {tuple(tensor.shape)}")
        if tensor.dtype != like.dtype or tensor.device != like.device:
            raise ValueError(
                f"{name} must be {like.dtype} on {like.device}, as the network is; found {tensor.dtype} on "
                f"{tensor.device}. Move them once, not in each call"
            )
    if actions.ndim not in (2, 3) or (actions.ndim == 3 and len(actions) != len(states)):
        raise ValueError(
            f"actions must be one table (A, d), or one for each of the {len(states)} states (B, A, d); found "
            f"{tuple(actions.shape)}"
        )
