"""The visual networks of the cases, which map 4x84x84 uint8 frames to a vector."""

import torch
from torch import nn

FRAMES = (4, 84, 84)


class NatureCNN(nn.Sequential):
    """The network of Mnih et al. (2015), doi:10.1038/nature14236: (rows, 4, 84, 84) to (rows, outputs)."""

    def __init__(self, outputs: int):
        super().__init__(
            nn.Conv2d(4, 32, 8, stride=4),  # (rows, 32, 20, 20)
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),  # (rows, 64, 9, 9)
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),  # (rows, 64, 7, 7)
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(3136, 512),
            nn.ReLU(),
            nn.Linear(512, outputs),
        )


class Residual(nn.Module):
    """Two convolutions with a shortcut around them."""

    def __init__(self, channels: int):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.second(self.first(x.relu()).relu())


class ResidualCNN(nn.Sequential):
    """The residual network of Espeholt et al. (2018), arXiv:1802.01561: (rows, *frames) to (rows, outputs).

    Its first convolution works at full resolution, so its activations are several times as large as NatureCNN's.
    `width` multiplies the channels.
    """

    def __init__(self, outputs: int, frames: tuple[int, int, int] = FRAMES, width: int = 1):
        layers, (channels, height, frame_width) = [], frames
        for out in (16 * width, 32 * width, 32 * width):
            pool = nn.MaxPool2d(3, stride=2, padding=1)
            layers += [nn.Conv2d(channels, out, 3, padding=1), pool, Residual(out), Residual(out)]
            channels, height, frame_width = out, (height + 1) // 2, (frame_width + 1) // 2
        layers += [
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(channels * height * frame_width, 256),
            nn.ReLU(),
            nn.Linear(256, outputs),
        ]
        super().__init__(*layers)


NETWORKS = {"nature": NatureCNN, "residual": ResidualCNN}


class _OnFrames(nn.Module):
    """Wraps a network for tianshou: takes NumPy observations, and computes in the precision of the weights."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body

    def values(self, obs):
        weight = next(self.parameters())
        frames = torch.as_tensor(obs, device=weight.device).to(weight.dtype)  # (rows, 4, 84, 84)
        return self.body(frames.div_(255))


class Actor(_OnFrames):
    def forward(self, obs, state=None, info=None, **_):
        return self.values(obs), state  # (rows, actions)


class Critic(_OnFrames):
    def forward(self, obs, **_):
        return self.values(obs)  # (rows, 1)


def output_bytes(net: nn.Module) -> list[int]:
    """Bytes per row of the input (frames in float32) and of each layer's output, in order."""
    inputs = torch.zeros(1, *FRAMES)
    sizes = [inputs.nbytes]
    layers = [layer for layer in net.modules() if not list(layer.children())]
    hooks = [layer.register_forward_hook(lambda *args: sizes.append(args[-1].nbytes)) for layer in layers]
    with torch.no_grad():
        net(inputs)
    for hook in hooks:
        hook.remove()
    return sizes
