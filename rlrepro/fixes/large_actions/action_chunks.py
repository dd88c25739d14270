"""Evaluate networks on all pairs of states and actions, a chunk of the actions at a time."""

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WORKING_SHARE = 0.25  # of the limit, for the chunk in progress; the rest holds activations for the backward pass
CPU_WORKING_BYTES = 8 * 2**20  # at most, on a CPU: chunks larger than its caches are slower
PROBED_ROWS = 8


def over_actions(networks: Sequence, states: torch.Tensor, actions: torch.Tensor, reduce: Callable) -> list:
    """The list of `reduce(values, columns)` over chunks of actions: `values` has a tensor (B, C) for each network, and
    `columns` is their slice of the table. `actions` is one table (A, d), or one per state (B, A, d).

    If gradients are recorded, activations are kept for the backward pass as far as the memory limit allows; later
    chunks are recomputed there.
    """
    _check(networks, states, actions)
    count = actions.shape[-2]
    chunk, chunks_kept = _plan(networks, len(states), count, states.device, own_tables=actions.ndim == 3)
    state_parts = [network.state_layer(states) for network in networks]  # (B, H) each

    def evaluate(features, columns, *state_parts):
        values = [network.pairs(part, features) for network, part in zip(networks, state_parts, strict=True)]
        return reduce(values, columns)

    results = []
    for number, start in enumerate(range(0, max(1, count), chunk)):
        columns = slice(start, start + chunk)
        inputs = actions[..., columns, :], columns, *state_parts
        if torch.is_grad_enabled() and number >= chunks_kept:
            results.append(checkpoint(evaluate, *inputs, use_reentrant=False, preserve_rng_state=False))
        else:
            results.append(evaluate(*inputs))
    return results


def numbers_kept(layers: nn.Module, width: int) -> int:
    """How many numbers these layers keep for the backward pass, per row of `width` numbers."""
    layers = deepcopy(layers).requires_grad_(True)  # frozen layers would keep fewer
    weights = {weight.untyped_storage()._cdata for weight in layers.parameters()}
    saved = {}  # address: (its numbers, the storage, so that the address is not reused)

    def save(tensor):
        if (storage := tensor.untyped_storage())._cdata not in weights:
            saved[storage._cdata] = storage.nbytes() // tensor.element_size(), storage
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        weight = next(layers.parameters())
        rows = torch.zeros(PROBED_ROWS, width, dtype=weight.dtype, device=weight.device, requires_grad=True)
        layers(rows + 0).sum()
    return sum(numbers for numbers, _ in saved.values()) // PROBED_ROWS


def _plan(networks, rows: int, count: int, device: torch.device, own_tables: bool) -> tuple[int, int]:
    """Actions per chunk, and how many chunks keep their activations. `own_tables`: each state has its own table."""
    limit = min(network.memory_limit for network in networks)
    kept_per_action = rows * sum(network.kept_bytes for network in networks)
    gradients = (1.5 if own_tables else 1) * rows * max(network.gradient_bytes for network in networks)
    bytes_per_action = kept_per_action + gradients
    requested = [network.chunk for network in networks if network.chunk != "auto"]
    working = int(WORKING_SHARE * limit)
    if device.type == "cpu":
        working = max(min(working, CPU_WORKING_BYTES), min(working, bytes_per_action))
    chunk = min(requested) if requested else int(working // max(bytes_per_action, 1))
    chunk = min(chunk, count) if count else 1
    if chunk < 1 or chunk * bytes_per_action > limit:
        chunk = max(chunk, 1)
        raise ValueError(
            f"{chunk} action{'s' if chunk > 1 else ''} at a time for {rows} states takes "
            f"{chunk * bytes_per_action:,} bytes, more than {'' if requested else f'{WORKING_SHARE:.0%} of '}"
            f"memory_limit={limit:,}: raise it, or use smaller {'chunks or batches' if requested else 'batches'}"
        )
    return chunk, int((limit - chunk * bytes_per_action) // max(chunk * kept_per_action, 1))


def _check(networks, states, actions) -> None:
    weight = networks[0].state_layer.weight
    for name, tensor, width in (
        ("states", states, networks[0].state_dim),
        ("actions", actions if actions.ndim <= 2 else actions.flatten(end_dim=-2), networks[0].action_dim),
    ):
        if tensor.ndim != 2 or tensor.shape[1] != width:
            raise ValueError(f"{name} must be of shape (count, {width}), found {tuple(tensor.shape)}")
        if tensor.dtype != weight.dtype or tensor.device != weight.device:
            raise ValueError(
                f"{name} must be {weight.dtype} on {weight.device}, as the network is; found {tensor.dtype} on "
                f"{tensor.device}. Move them once, not in each call"
            )
    if actions.ndim not in (2, 3) or (actions.ndim == 3 and len(actions) != len(states)):
        raise ValueError(
            f"actions must be one table (A, d), or one for each of the {len(states)} states (B, A, d); found "
            f"{tuple(actions.shape)}"
        )
