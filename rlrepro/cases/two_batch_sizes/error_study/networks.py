"""Random networks: plain, convolutional, recurrent or attention, with any norm, a shared trunk or tied weights."""

from random import Random

import torch
from torch import nn

ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.GELU, nn.ELU, nn.SiLU)
KINDS = ("plain", "convolutional", "recurrent", "attention")


class Body(nn.Module):
    """Maps observations (rows, *shape), of any dtype, to features (rows, width) in the precision of the weights."""

    def __init__(self, layers: nn.Module, scale: float):
        super().__init__()
        self.layers, self.scale = layers, scale

    def forward(self, rows):
        weight = next(self.layers.parameters())
        rows = torch.as_tensor(rows, dtype=weight.dtype, device=weight.device)
        return self.layers(rows / self.scale if self.scale != 1 else rows)


class LastStep(nn.Module):
    """A recurrent layer over (rows, steps * features) that returns the last step's output."""

    def __init__(self, layer: nn.RNNBase):
        super().__init__()
        self.layer = layer

    def forward(self, rows):
        return self.layer(rows.unflatten(1, (-1, self.layer.input_size)))[0][:, -1]


class Tokens(nn.Module):
    """A transformer encoder over (rows, tokens * features), averaged over the tokens."""

    def __init__(self, encoder: nn.Module, features: int):
        super().__init__()
        self.encoder, self.features = encoder, features

    def forward(self, rows):
        return self.encoder(rows.unflatten(1, (-1, self.features))).mean(1)


class Residual(nn.Module):
    def __init__(self, layers: nn.Module):
        super().__init__()
        self.layers = layers

    def forward(self, rows):
        return rows + self.layers(rows)


def random_body(rng: Random, kind: str, shape: tuple[int, ...]) -> tuple[Body, int, list[str]]:
    """(body, width of its features, names of its components) for observations of that shape."""
    makers = {"plain": _plain, "convolutional": _convolutional, "recurrent": _recurrent, "attention": _attention}
    layers, width, names = makers[kind](rng, shape)
    return Body(layers, 255 if len(shape) == 3 else 1), width, [kind, *names]


def random_shape(rng: Random, kind: str) -> tuple[int, ...]:
    """The shape of an observation for that kind of network."""
    if kind == "convolutional":
        size = rng.randint(12, 40)
        return rng.randint(1, 4), size, size
    return (rng.choice((2, 3, 4, 8)) * rng.choice((8, 12, 16)),) if kind != "plain" else (rng.randint(3, 200),)


def _plain(rng, shape):
    layers, width, names = [], shape[0], set()
    for _ in range(rng.randint(1, 4)):
        out = rng.choice((16, 33, 64, 100, 128, 256))
        norm = rng.choice((None, None, nn.LayerNorm, nn.BatchNorm1d))
        layers += [nn.Linear(width, out), *([norm(out)] if norm else []), rng.choice(ACTIVATIONS)()]
        names |= {norm.__name__} if norm else set()
        width = out
        if rng.random() < 0.2:
            layers.append(nn.Dropout(0.1))
        if rng.random() < 0.25:
            tied = nn.Linear(width, width)
            layers += [tied, nn.ReLU(), tied]
            names.add("tied weights")
        if rng.random() < 0.2:
            layers.append(Residual(nn.Sequential(nn.Linear(width, width), nn.Tanh())))
            names.add("residual")
    return nn.Sequential(*layers), width, sorted(names)


def _convolutional(rng, shape):
    layers, names, channels = [], set(), shape[0]
    for _ in range(rng.randint(1, 3)):
        out = rng.choice((4, 8, 12, 16, 32))
        layers.append(nn.Conv2d(channels, out, rng.choice((3, 4, 5)), rng.choice((1, 2)), padding=rng.choice((1, 2))))
        norm = rng.choice((None, None, "BatchNorm2d", "GroupNorm"))
        if norm:
            layers.append(nn.BatchNorm2d(out) if norm == "BatchNorm2d" else nn.GroupNorm(4, out))
            names.add(norm)
        layers.append(rng.choice(ACTIVATIONS)())
        channels = out
        if rng.random() < 0.3:
            pool = rng.choice((nn.MaxPool2d, nn.AvgPool2d))
            layers.append(pool(2))
            names.add(pool.__name__)
        if rng.random() < 0.3:
            layers.append(Residual(nn.Sequential(nn.Conv2d(out, out, 3, padding=1), nn.ReLU())))
            names.add("residual")
    layers.append(nn.Flatten())
    try:
        with torch.no_grad():
            features = nn.Sequential(*layers).eval()(torch.zeros(1, *shape)).shape[1]
    except (RuntimeError, ValueError):  # the observation is too small: nothing is left, or nothing to normalize
        return _convolutional(rng, shape)
    width = rng.choice((32, 64, 128))
    return nn.Sequential(*layers, nn.Linear(features, width), nn.ReLU()), width, sorted(names)


def _recurrent(rng, shape):
    cell = rng.choice((nn.LSTM, nn.GRU, nn.RNN))
    features = rng.choice([size for size in (2, 4, 8) if shape[0] % size == 0])
    width = rng.choice((16, 32, 64))
    layer = cell(features, width, num_layers=rng.choice((1, 1, 2)), batch_first=True)
    return nn.Sequential(LastStep(layer), nn.LayerNorm(width)), width, [cell.__name__]


def _attention(rng, shape):
    width = 8 if shape[0] % 8 == 0 else 4
    layer = nn.TransformerEncoderLayer(
        width,
        rng.choice((1, 2, 4)),
        dim_feedforward=rng.choice((32, 64, 128)),
        dropout=rng.choice((0.0, 0.1)),
        batch_first=True,
        norm_first=rng.random() < 0.5,
    )
    layers = nn.TransformerEncoder(layer, rng.choice((1, 2)), enable_nested_tensor=False)
    return nn.Sequential(Tokens(layers, width), nn.Linear(width, 64), nn.ReLU()), 64, []
