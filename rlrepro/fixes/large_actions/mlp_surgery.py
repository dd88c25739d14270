"""Splits plain networks on [state; action] into their layers, and checks and copies these."""

from copy import deepcopy

import torch
from torch import nn

NOT_PER_ROW = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)  # a row depends on others, or on chance
STATES, ACTIONS = 3, 5  # on which a network is compared with its factored form
TOLERANCE = 1e-9  # relative to the largest value, in float64


def layers_of(net: nn.Module) -> list[nn.Module]:
    """The layers of a chain, in order; a layer that is used twice appears twice."""
    parts = [] if _computes_weights(net) else [part for part in net._modules.values() if part is not None]
    return [layer for part in parts for layer in layers_of(part)] if parts else [net]


def check_layers(layers: list[nn.Module], state_dim: int) -> None:
    """Raises ValueError if the first layer is not a plain linear layer on a state and an action, if there is no further
    linear layer, or if a layer computes its weights or does not process each row independently."""
    for layer in layers:
        if _computes_weights(layer):
            raise ValueError(
                f"expected layers whose weights are parameters, found {layer}, which computes its weights in each call "
                "(weight_norm, spectral_norm, ...): turn them into parameters first, with "
                "torch.nn.utils.parametrize.remove_parametrizations, remove_weight_norm, remove_spectral_norm or "
                "prune.remove"
            )
    first, *rest = layers
    weights = [id(weight) for layer in layers for weight in layer.parameters()]
    if len(set(weights)) < len(weights):
        raise ValueError(f"expected layers that share no weights, since copies would learn separately; found {layers}")
    if type(first) is not nn.Linear or not 0 < state_dim < first.in_features or _has_hooks(first):
        raise ValueError(
            f"expected a network that begins with an nn.Linear with more than state_dim={state_dim} inputs, without "
            f"hooks; found {first}"
        )
    if not any(isinstance(layer, nn.Linear) for layer in rest):
        raise ValueError(
            f"expected a network with a hidden layer: without one there is nothing to factor; found {layers}"
        )
    for layer in layers:
        if isinstance(layer, NOT_PER_ROW):
            raise ValueError(f"each row must be processed independently and deterministically, found {layer}")


def check_same_values(factored, net: nn.Module) -> None:
    """Raises ValueError if a FactoredQ computes other values than the network that it was made from."""
    if factored.state_layer.weight.is_meta:
        return
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        states = torch.randn(STATES, factored.state_dim, dtype=torch.float64)
        actions = torch.randn(ACTIONS, factored.action_dim, dtype=torch.float64)
        pairs = torch.cat([states.repeat_interleave(ACTIONS, dim=0), actions.repeat(STATES, 1)], dim=1)
        net_copy = deepcopy(net).cpu().double()
        expected = torch.cat([net_copy(pair).flatten() for pair in pairs.split(1)])  # whatever the other rows are
        is_equal = len(expected) == len(pairs)
        if is_equal:
            factored = deepcopy(factored).cpu().double()
            values = factored.pairs(factored.state_layer(states), actions).flatten()
            is_equal = (values - expected).abs().max() <= TOLERANCE * expected.abs().max()
    if not is_equal:
        raise ValueError(f"expected a chain of layers that returns one value per row, by that row alone; found {net}")


def empty_linear(inputs: int, like: nn.Linear, bias: bool | None = None) -> nn.Linear:
    """A layer with as many outputs as another, whose weights are not initialized."""
    bias = like.bias is not None if bias is None else bias
    options = {"bias": bias, "dtype": like.weight.dtype, "device": like.weight.device}
    layer = nn.utils.skip_init(nn.Linear, inputs, like.out_features, **options)
    layer.weight.requires_grad_(like.weight.requires_grad)
    if bias and like.bias is not None:
        layer.bias.requires_grad_(like.bias.requires_grad)
    return layer


def copy_layers(layers) -> list[nn.Module]:
    """Copies of the layers after the first. A ReLU after a linear layer works in place, since a linear layer's backward
    pass does not need its output."""
    previous, copies = nn.Linear, []
    for layer in layers:
        in_place = type(layer) is nn.ReLU and previous is nn.Linear
        copies.append(nn.ReLU(inplace=True) if in_place else deepcopy(layer))
        previous = type(layer)
    return copies


def _has_hooks(layer: nn.Module) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks)


def _computes_weights(layer: nn.Module) -> bool:
    """Whether torch.nn.utils computes its weights in each call, by parametrizations or by the older hooks. This would
    happen once per chunk, with other weights each time if they are estimated step by step."""
    hooks = [type(hook).__module__ for hook in layer._forward_pre_hooks.values()]
    return hasattr(layer, "parametrizations") or any(name.startswith("torch.nn.utils.") for name in hooks)
