"""The actors or the critics of an ensemble. Their backward pass is by hand: autograd would copy the gradients of
weights twice, for their layout and into one row per member, and its calls take longer than a small layer."""

import torch
from torch import nn


class Tower:
    """`layers` has, for each layer of K members, the weights (K, out, in), the biases (K, out), where to write the
    gradients of both, and the activation, or None."""

    def __init__(self, layers: list[tuple]):
        self._layers, self._minus_one = layers, layers[0][0].new_tensor(-1)
        for *_, activation in layers:
            if hasattr(activation, "inplace"):
                activation.inplace = False  # its input is needed for its gradient

    @torch.no_grad()
    def __call__(self, x: torch.Tensor, kept: list | None = None) -> torch.Tensor:
        """The outputs (K, B, out) for inputs (K, B, in); `kept` is a list for what `backward` needs."""
        for weight, bias, _, _, activation in self._layers:
            # tanh(z) = 2 sigmoid(2z) - 1: on some CPUs torch's tanh takes longer than the product; its sigmoid does not
            scale = 2 if type(activation) is nn.Tanh and x.device.type == "cpu" else 1
            y = z = torch.baddbmm(bias.unsqueeze(1), x, weight.mT, beta=scale, alpha=scale)
            if scale == 2:
                torch.add(self._minus_one, y.sigmoid_(), alpha=2, out=y)
            elif activation is not None:
                with torch.set_grad_enabled(kept is not None):
                    y = activation(z.requires_grad_(kept is not None))
            if kept is not None:
                kept.append((x, z, y))
            x = y.detach()
        return x

    def backward(self, gradient: torch.Tensor, kept: list) -> None:
        """Writes the gradients of weights and biases, given that with respect to the outputs. Empties `kept`."""
        for weight, _, weight_gradient, bias_gradient, activation in reversed(self._layers):
            x, z, y = kept.pop()
            if type(activation) is nn.Tanh and y is z:
                torch.ops.aten.tanh_backward.grad_input(gradient, y, grad_input=gradient)
            elif y is not z:
                (gradient,) = torch.autograd.grad(y, z, gradient)
            # not directly into the view, where bmm would go member by member; few rows are faster than few columns
            if 2 * x.shape[2] <= gradient.shape[2]:
                weight_gradient.mT.copy_(torch.bmm(x.mT, gradient))
            else:
                weight_gradient.copy_(torch.bmm(gradient.mT, x))
            torch.sum(gradient, 1, out=bias_gradient)
            if kept:  # with one output, a product of matrices would take longer
                gradient = gradient * weight if weight.shape[1] == 1 else torch.bmm(gradient, weight)
