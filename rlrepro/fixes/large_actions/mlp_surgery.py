"""Plain networks on [state; action] as chains of layers, to be taken apart and put together."""

from copy import deepcopy

import torch
from torch import nn

NOT_ON_ITS_OWN = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)  # a row depends on more than itself
ROWS, COLUMNS = 3, 5  # states and actions on which a network is compared with its factored form
TOLERANCE = 1e-9  # of the largest value, computed in float64


def layers_of(net: nn.Module) -> list[nn.Module]:
    """The layers of a chain, in order; one that is used twice comes twice."""
    parts = [part for part in net._modules.values() if part is not None]
    return [layer for part in parts for layer in layers_of(part)] if parts else [net]


def check_layers(layers: list[nn.Module], state_dim: int) -> None:
    """Raises ValueError where the first is no plain linear layer on a state and an action, nothing with weights comes
    after it, or rows are not treated on their own."""
    first, *rest = layers
    if type(first) is not nn.Linear or not 0 < state_dim < first.in_features or _has_hooks(first):
        raise ValueError(
            f"expected a network that begins with an nn.Linear of more than state_dim={state_dim} numbers, without "
            f"hooks; found {first}"
        )
    if not any(isinstance(layer, nn.Linear) for layer in rest):
        raise ValueError(
            f"expected a network with a hidden layer: without one there is nothing to factor; found {layers}"
        )
    for layer in layers:
        if isinstance(layer, NOT_ON_ITS_OWN):
            raise ValueError(f"each row must be treated on its own and without chance, found {layer}")


def check_same(factored, net: nn.Module) -> None:
    """Raises ValueError where a FactoredQ gives other values than the network it was made from."""
    if factored.state_layer.weight.is_meta:
        return
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        states = torch.randn(ROWS, factored.state_dim, dtype=torch.float64)
        actions = torch.randn(COLUMNS, factored.action_dim, dtype=torch.float64)
        pairs = torch.cat([states.repeat_interleave(COLUMNS, dim=0), actions.repeat(ROWS, 1)], dim=1)
        expected = deepcopy(net).cpu().double()(pairs).flatten()
        same = len(expected) == len(pairs)
        if same:
            factored = deepcopy(factored).cpu().double()
            found = factored.pairs(factored.state_layer(states), actions).flatten()
            same = (found - expected).abs().max() <= TOLERANCE * expected.abs().max()
    if not same:
        raise ValueError(f"the network does not compute one value by its layers in turn: {net}")


def empty_linear(inputs: int, like: nn.Linear, bias: bool | None = None) -> nn.Linear:
    """A layer with the outputs of another, whose weights are still to be written."""
    bias = like.bias is not None if bias is None else bias
    options = {"bias": bias, "dtype": like.weight.dtype, "device": like.weight.device}
    return nn.utils.skip_init(nn.Linear, inputs, like.out_features, **options).requires_grad_(like.weight.requires_grad)


def copies(layers) -> list[nn.Module]:
    """Of layers. A ReLU after a linear layer, which does not need its own result, works in place."""
    before, found = nn.Linear, []  # what comes first is the sum that the first layer makes
    for layer in layers:
        in_place = type(layer) is nn.ReLU and before is nn.Linear
        found.append(nn.ReLU(inplace=True) if in_place else deepcopy(layer))
        before = type(layer)
    return found


def _has_hooks(layer: nn.Module) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks or hasattr(layer, "parametrizations"))
