"""Actor-critics of one shape as one batched network: K small matrix products become one call."""

from collections.abc import Sequence

import torch
from torch.distributions import Categorical, Normal
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class StackedPolicies:
    """K of Stable-Baselines3's `ActorCriticPolicy`, with the weights of member k in row k of `flat` (K, P).

    Its methods take (K, B, ...) and treat member k with its own weights. `weights` are views of `flat`, so that one
    call steps all of them.
    """

    def __init__(self, policies: Sequence, device):
        (self.template, *_), self.device = policies, device
        self.flat = torch.stack([parameters_to_vector(policy.parameters()) for policy in policies]).detach().to(device)
        self.weights, first = {}, 0
        for name, parameter in self.template.named_parameters():
            last, shape = first + parameter.numel(), (len(policies), *parameter.shape)
            self.weights[name], first = self.flat[:, first:last].view(shape).requires_grad_(), last
        extractor = self.template.mlp_extractor
        self._actor = [*_layers("mlp_extractor.policy_net", extractor.policy_net), "action_net"]
        self._critic = [*_layers("mlp_extractor.value_net", extractor.value_net), "value_net"]

    def copy_to(self, member: int, policy) -> None:
        """Give a policy this member's weights."""
        vector_to_parameters(self.flat[member].to(policy.device), policy.parameters())

    def copy_from(self, member: int, policy) -> None:
        """Take over the weights of a policy."""
        with torch.no_grad():
            self.flat[member] = parameters_to_vector(policy.parameters()).to(self.device)

    def gradients(self, losses: torch.Tensor) -> torch.Tensor:
        """Of each member's loss (K,) by its own weights: (K, P), in the order of `flat`."""
        found = torch.autograd.grad(losses.sum(), list(self.weights.values()))
        return torch.cat([each.flatten(start_dim=1) for each in found], dim=1)

    def distribution(self, observations: torch.Tensor) -> Normal | Categorical:
        """How each member would act: observations (K, B, ...), actions (K, B, A), or (K, B) where they are discrete."""
        found = self._through(self._actor, observations)  # (K, B, A)
        if "log_std" not in self.weights:
            return Categorical(logits=found, validate_args=False)
        return Normal(found, self.weights["log_std"].exp().unsqueeze(1).expand_as(found), validate_args=False)

    def values(self, observations: torch.Tensor) -> torch.Tensor:
        """What each member expects of (K, B, ...) observations: (K, B)."""
        return self._through(self._critic, observations).squeeze(-1)

    def _through(self, layers, observations):
        x = observations.flatten(start_dim=2).float()
        for layer in layers:
            if isinstance(layer, str):
                weight, bias = self.weights[f"{layer}.weight"], self.weights[f"{layer}.bias"]
                x = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
            else:
                x = layer(x)
        return x


def joint(per_dimension: torch.Tensor) -> torch.Tensor:
    """(K, B) from a distribution's log-probability or entropy: summed over the dimensions of the action, if any."""
    return per_dimension.sum(-1) if per_dimension.ndim == 3 else per_dimension


def _layers(name: str, tower) -> list:
    """Of a tower of the network: the name of each linear layer, and each activation itself."""
    return [
        f"{name}.{index}" if isinstance(layer, torch.nn.Linear) else layer for index, layer in tower.named_children()
    ]
