"""FactoredQ: the values of many actions, without ever allocating (batch, actions, hidden)."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from .action_chunks import numbers_kept, over_actions
from .mlp_surgery import check_layers, check_same_values, copy_layers, empty_linear, layers_of

MEMORY_LIMIT = 512 * 2**20  # bytes


class Best(NamedTuple):
    """The best available action of each state."""

    values: torch.Tensor  # (B,)
    indices: torch.Tensor  # (B,), into the action table


class FactoredQ(nn.Module):
    """Q(s, a) of a plain network on [s; a], for all actions of a table at once.

    The first layer is split, W·[s; a] = Ws·s + Wa·a, so that a state is multiplied once, not once per action. The other
    layers process `chunk` actions at a time. If gradients are recorded, activations are kept as far as `memory_limit`
    allows; those of further chunks are dropped and recomputed in the backward pass (torch.utils.checkpoint, after
    arXiv:1604.06174). Values and gradients equal the plain network's, up to rounding.

    Args:
        state_dim, action_dim: numbers in a state and in an action's features
        hidden: widths of the hidden layers, each followed by a ReLU
        chunk: actions at a time; "auto" uses as many as the limit allows
        memory_limit: bytes of activations and their gradients in one evaluation; the results (B, A) and the gradients
            of the weights are extra. If the GPU has the room, a higher limit is faster: chunks are larger, and fewer
            are recomputed

    Raises ValueError for sizes below 1. Methods raise ValueError if a table has the wrong shape, device or dtype, if a
    state has no available action, and if a chunk does not fit into the limit.
    """

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        hidden: Sequence[int] = (768, 512, 128),
        *,
        chunk: int | str = "auto",
        memory_limit: int = MEMORY_LIMIT,
    ):
        sizes = [("state_dim", state_dim), ("action_dim", action_dim), *(("hidden", width) for width in hidden)]
        for name, size in sizes:
            if size < 1:
                raise ValueError(f"{name} must be at least 1, found {size}")
        if not hidden:
            raise ValueError("hidden must contain at least one layer: without one there is nothing to factor")
        widths = [state_dim + action_dim, *hidden]
        pairs = itertools.pairwise(widths)
        layers = [layer for inputs, outputs in pairs for layer in (nn.Linear(inputs, outputs), nn.ReLU())]
        self._build([*layers, nn.Linear(widths[-1], 1)], state_dim, chunk, memory_limit)

    @classmethod
    def from_sequential(cls, net: nn.Module, state_dim: int, **options) -> "FactoredQ":
        """The same function as a plain network on [state; action], whose first `state_dim` inputs are the state: an
        nn.Sequential, possibly nested, or a module that contains only one (Pearl's `VanillaQValueNetwork`). Its weights
        are copied; `options` are `chunk` and `memory_limit`.

        Raises ValueError if the network is not such a chain of layers, computes something other than its chain, or
        computes weights in each call (weight_norm, spectral_norm, ...).
        """
        layers = layers_of(net)
        check_layers(layers, state_dim)
        if unknown := options.keys() - {"chunk", "memory_limit"}:
            raise TypeError(f"from_sequential takes chunk and memory_limit, found {sorted(unknown)}")
        factored = cls.__new__(cls)
        try:
            factored._build(layers, state_dim, options.get("chunk", "auto"), options.get("memory_limit", MEMORY_LIMIT))
            check_same_values(factored, net)
        except RuntimeError as error:  # shapes that don't follow from each other
            raise ValueError(f"expected a chain of layers that returns one value, found {net}") from error
        return factored

    def to_sequential(self) -> nn.Sequential:
        """A plain network on [state; action], with copies of the weights."""
        first = empty_linear(self.state_dim + self.action_dim, like=self.state_layer)
        plain = nn.Sequential(first, *copy_layers(self.rest))
        self.copy_to(plain)
        return plain

    def copy_to(self, net: nn.Module) -> None:
        """Copy the weights into a plain network of the same layers, such as the one that this was made from. Raises
        ValueError for other layers."""
        first, *rest = layers_of(net)
        check_layers([first, *rest], self.state_dim)
        first_weight = torch.cat([self.state_layer.weight, self.action_layer.weight], dim=1)
        source = {"first": first_weight, "first bias": self.state_layer.bias} | _weights(self.rest)
        target = {"first": first.weight, "first bias": first.bias} | _weights(rest)
        if _shapes(source) != _shapes(target):
            raise ValueError(f"expected a network of the same layers, found {net}")
        with torch.no_grad():
            for name, weight in target.items():
                if weight is not None:
                    weight.copy_(source[name])

    def forward(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Values of all actions (A, d) in all states (B, S): (B, A). Here and in the other methods, each state may have
        its own table (B, A, d)."""
        return torch.cat(over_actions([self], states, actions, lambda values, _: values[0]), dim=1)

    def of(self, states: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Value of one action, given by its features (B, d), in each state (B, S): (B,)."""
        return self.rest(self.state_layer(states) + self.action_layer(features)).squeeze(-1)

    def best(self, states: torch.Tensor, actions: torch.Tensor, available: torch.Tensor | None = None) -> Best:
        """The largest value in each state among the actions (A, d) that are `available` (B, A), and its action, without
        allocating (B, A)."""
        if actions.ndim > 1 and not actions.shape[-2]:
            raise ValueError("found no actions to choose from; pass at least one")
        check_available(available, len(states), actions.shape[-2] if actions.ndim > 1 else 0)

        def best_of_chunk(values, columns):
            largest = masked(values[0], available, columns, -torch.inf).max(dim=1)
            return largest.values, largest.indices + columns.start

        values, indices = map(torch.stack, zip(*over_actions([self], states, actions, best_of_chunk), strict=True))
        winner = values.max(dim=0)
        return Best(winner.values, indices.gather(0, winner.indices.unsqueeze(0)).squeeze(0))

    def soft_values(
        self,
        states: torch.Tensor,
        actions: torch.Tensor,
        available: torch.Tensor | None = None,
        *,
        temperature: float = 1.0,
    ) -> torch.Tensor:
        """The soft value of each state (B,): temperature × log Σ exp(Q / temperature) over its available actions
        (Haarnoja et al. 2017, arXiv:1702.08165, equation 3)."""
        check_available(available, len(states), actions.shape[-2] if actions.ndim > 1 else 0)
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, found {temperature}; for 0, use `best`")

        def soft_value_of_chunk(values, columns):
            lowest = torch.finfo(values[0].dtype).min  # -inf has no gradient if a chunk has no available action
            return masked(values[0] / temperature, available, columns, lowest).logsumexp(dim=1)

        return temperature * torch.stack(over_actions([self], states, actions, soft_value_of_chunk)).logsumexp(dim=0)

    def pairs(self, state_part: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Values (B, C) of the actions (C, d) or (B, C, d), given the states' part of the first layer (B, H)."""
        pairs = state_part.unsqueeze(1) + self.action_layer(features)  # (B, C, H)
        # two dimensions, which some layers expect; _unsafe_view, because an in-place ReLU on a view would copy its base
        rows = torch.ops.aten._unsafe_view(pairs, (-1, pairs.shape[2]))
        return self.rest(rows).reshape(pairs.shape[:2])

    @property
    def kept_bytes(self) -> int:
        """Bytes that one pair of a state and an action keeps for the backward pass."""
        return self._kept_numbers * self.state_layer.weight.element_size()

    @property
    def gradient_bytes(self) -> int:
        """Further bytes that the backward pass needs per pair."""
        return 2 * self._widest * self.state_layer.weight.element_size()

    def _build(self, layers: list[nn.Module], state_dim: int, chunk, memory_limit: int) -> None:
        super().__init__()
        if chunk != "auto" and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
            raise ValueError(f"chunk must be 'auto' or a number of actions, at least 1; found {chunk!r}")
        if memory_limit < 1:
            raise ValueError(f"memory_limit must be at least 1 byte, found {memory_limit}")
        first, *rest = layers
        self.state_dim, self.action_dim = state_dim, first.in_features - state_dim
        self.chunk, self.memory_limit = chunk, memory_limit
        width = first.out_features
        self.state_layer = empty_linear(state_dim, like=first)
        self.action_layer = empty_linear(self.action_dim, like=first, bias=False)
        self.rest = nn.Sequential(*copy_layers(rest))
        with torch.no_grad():
            for layer, weight in zip(
                (self.state_layer, self.action_layer), first.weight.split([state_dim, self.action_dim], 1), strict=True
            ):
                layer.weight.copy_(weight)
            if first.bias is not None:
                self.state_layer.bias.copy_(first.bias)
        self._kept_numbers = numbers_kept(self.rest, width)
        self._widest = max(width, *(layer.out_features for layer in rest if isinstance(layer, nn.Linear)))


def expected_minimum(
    critics: Sequence[FactoredQ], states: torch.Tensor, actions: torch.Tensor, policy: torch.Tensor
) -> torch.Tensor:
    """Σ_a π(a|s) · min over the critics of Q(s, a), (B,), for states (B, S), actions (A, d) and a policy (B, A)."""

    def expected(values, columns):
        return (policy[:, columns] * torch.stack(values).amin(dim=0)).sum(dim=1)

    return torch.stack(over_actions(critics, states, actions, expected)).sum(dim=0)


def check_available(available: torch.Tensor | None, rows: int, count: int) -> None:
    """Raises ValueError if `available` is not bool (rows, count), or a row has no available action."""
    if available is None:
        return
    if available.dtype != torch.bool or tuple(available.shape) != (rows, count):
        raise ValueError(
            f"available must be bool of shape ({rows}, {count}), found {available.dtype} of {tuple(available.shape)}"
        )
    if not (any_action := available.any(dim=1)).all():
        raise ValueError(
            f"every state needs an available action; states {(~any_action).nonzero().flatten().tolist()[:10]} have none"
        )


def _weights(layers) -> dict:
    """The weights of layers after the first, by (index of the layer, name)."""
    return {(index, name): weight for index, layer in enumerate(layers) for name, weight in layer.named_parameters()}


def _shapes(weights: dict) -> dict:
    return {name: None if weight is None else tuple(weight.shape) for name, weight in weights.items()}


def masked(values: torch.Tensor, available: torch.Tensor | None, columns: slice, fill: float) -> torch.Tensor:
    """The values (B, C) of available actions, and `fill` for the others."""
    return values if available is None else values.masked_fill(~available[:, columns], fill)
