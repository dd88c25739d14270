"""Actor-critics of the same shape as one batched network: K small matrix products become one call."""

from collections.abc import Sequence
from itertools import zip_longest

import torch
from torch.distributions import Categorical, Normal
from torch.nn.utils import parameters_to_vector, vector_to_parameters

LARGEST_KEPT = 32 * 2**20 - 2**16  # bytes; freeing a larger block does not make the C library keep memory


class StackedPolicies:
    """K policies of Stable-Baselines3 (`ActorCriticPolicy`), with the weights of member k in row k of `flat` (K, P).

    Its methods take (K, B, ...), and member k's part passes through member k's weights. `weights` are views of `flat`,
    so one optimizer step updates all of them.
    """

    def __init__(self, policies: Sequence, device):
        (self.template, *_), self.device = policies, device
        _keep_freed_memory(device)
        self.flat = torch.stack([parameters_to_vector(policy.parameters()) for policy in policies]).detach().to(device)
        self._flat_gradient = torch.empty_like(self.flat)
        self.weights, self._gradients, first = {}, {}, 0
        for name, parameter in self.template.named_parameters():
            last, shape = first + parameter.numel(), (len(policies), *parameter.shape)
            self.weights[name] = self.flat[:, first:last].view(shape).requires_grad_()
            self._gradients[name], first = self._flat_gradient[:, first:last].view(shape), last
        extractor = self.template.mlp_extractor
        self._actor = [*_layers("mlp_extractor.policy_net", extractor.policy_net), "action_net"]
        self._critic = [*_layers("mlp_extractor.value_net", extractor.value_net), "value_net"]

    def copy_to(self, member: int, policy) -> None:
        """Copy this member's weights to a policy."""
        weights = self.flat[member].to(policy.device, copy=True)  # the policy's parameters become views of these
        vector_to_parameters(weights, policy.parameters())

    def check_finite(self) -> None:
        """Raises ValueError with the members whose weights are not finite."""
        diverged = torch.nonzero(~self.flat.isfinite().all(dim=1)).flatten().tolist()
        if diverged:
            raise ValueError(
                f"weights of members {diverged} are no longer finite: check their rewards and observations and the "
                "learning rate, or train again without these members"
            )

    def gradients(self, losses: torch.Tensor) -> torch.Tensor:
        """Gradients (K, P), in the order of `flat`, of each member's loss (K,) with respect to its weights; the next
        call overwrites them."""
        gradients = torch.autograd.grad(losses.sum(), list(self.weights.values()))
        for gradient, target in zip(gradients, self._gradients.values(), strict=True):
            if gradient.data_ptr() != target.data_ptr():  # those of linear layers are already there
                target.copy_(gradient)
        return self._flat_gradient

    def distribution(self, observations: torch.Tensor) -> Normal | Categorical:
        """Each member's distribution of actions (K, B, A), or (K, B) if discrete, for observations (K, B, ...)."""
        outputs = self._forward(self._actor, observations)  # (K, B, A)
        if "log_std" not in self.weights:
            return Categorical(logits=outputs, validate_args=False)
        return Normal(outputs, self.weights["log_std"].exp().unsqueeze(1).expand_as(outputs), validate_args=False)

    def values(self, observations: torch.Tensor) -> torch.Tensor:
        """Each member's values (K, B) of observations (K, B, ...)."""
        return self._forward(self._critic, observations).squeeze(-1)

    def _forward(self, layers, observations):
        x = observations.flatten(start_dim=2).float()
        for layer, next_layer in zip_longest(layers, layers[1:]):
            if isinstance(layer, str):
                names = f"{layer}.weight", f"{layer}.bias"
                gradients = map(self._gradients.get, names)
                x = _Linear.apply(x, *map(self.weights.get, names), *gradients, type(next_layer) is torch.nn.Tanh)
            elif type(layer) is not torch.nn.Tanh:
                x = layer(x)
        return x


class _Linear(torch.autograd.Function):
    """A linear layer for each member, with a tanh if one follows. It writes the gradients of its weights into their
    views: autograd's would be copied twice, for their layout and into one row per member."""

    @staticmethod
    def forward(ctx, x, weight, bias, weight_gradient, bias_gradient, tanh):
        ctx.gradients = weight_gradient, bias_gradient
        # tanh(z) = 2 sigmoid(2z) - 1: on some CPUs torch's tanh takes longer than the product; its sigmoid does not
        scale = 2 if tanh and x.device.type == "cpu" else 1
        y = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2), beta=scale, alpha=scale)
        if scale == 2:
            torch.add(y.new_tensor(-1), y.sigmoid_(), alpha=2, out=y)
        elif tanh:
            y.tanh_()
        ctx.save_for_backward(x, weight, y if tanh else None)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, weight, tanh = ctx.saved_tensors
        weight_gradient, bias_gradient = ctx.gradients
        if tanh is not None:  # in place: the gradient comes from the next layer, and nothing else needs it
            torch.ops.aten.tanh_backward.grad_input(gradient, tanh, grad_input=gradient)
        x_gradient = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        # not directly into the view, where bmm would go member by member; few rows are faster than few columns
        if 2 * x.shape[2] <= gradient.shape[2]:
            weight_gradient.copy_(torch.bmm(x.transpose(1, 2), gradient).transpose(1, 2))
        else:
            weight_gradient.copy_(torch.bmm(gradient.transpose(1, 2), x))
        torch.sum(gradient, 1, out=bias_gradient)
        return x_gradient, weight_gradient, bias_gradient, None, None, None


def _keep_freed_memory(device: torch.device) -> None:
    """Let the next gradient step take the memory that the previous one freed. By default, the GNU C library returns
    that memory to the system, which must fill each page with zeros before the next step can use it. After freeing one
    block of almost 32 MiB, the library keeps up to 64 MiB (mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD). So a
    block of that size is allocated and freed here; it takes no memory, since nothing is written to it."""
    if device.type == "cpu":
        torch.empty(LARGEST_KEPT, dtype=torch.uint8)


def joint(per_dimension: torch.Tensor) -> torch.Tensor:
    """A distribution's log-probability or entropy, summed over the dimensions of the action if it has any: (K, B)."""
    return per_dimension.sum(-1) if per_dimension.ndim == 3 else per_dimension


def _layers(name: str, tower) -> list:
    """The layers of one tower of the network: linear layers by name, activations as modules."""
    children = tower.named_children()
    return [f"{name}.{index}" if isinstance(layer, torch.nn.Linear) else layer for index, layer in children]
