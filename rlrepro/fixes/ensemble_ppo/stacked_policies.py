"""Actor-critics of the same shape as one batched network: K small matrix products become one call."""

from collections.abc import Sequence

import torch
from torch.distributions import Categorical, Normal
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from .towers import Tower

LARGEST_KEPT = 32 * 2**20 - 2**16  # bytes; freeing a larger block does not make the C library keep memory


class StackedPolicies:
    """K policies of Stable-Baselines3 (`ActorCriticPolicy`), with the weights of member k in row k of `flat` (K, P).

    Its methods take (K, B, ...), and member k's part passes through member k's weights. `weights` are views of `flat`,
    so one optimizer step updates all of them, and `gradients` are views of `flat_gradient` (K, P).
    """

    def __init__(self, policies: Sequence, device):
        (self.template, *_), self.device = policies, device
        _keep_freed_memory(device)
        self.flat = torch.stack([parameters_to_vector(policy.parameters()) for policy in policies]).detach().to(device)
        self.flat_gradient = torch.empty_like(self.flat)
        self.weights, self.gradients, first = {}, {}, 0
        for name, parameter in self.template.named_parameters():
            last, shape = first + parameter.numel(), (len(policies), *parameter.shape)
            self.weights[name] = self.flat[:, first:last].view(shape)
            self.gradients[name], first = self.flat_gradient[:, first:last].view(shape), last
        self.actor, self.critic = self._tower("policy_net", "action_net"), self._tower("value_net", "value_net")
        self.log_std = self.weights.get("log_std")  # (K, A), or None if actions are discrete

    def copy_to(self, member: int, policy) -> None:
        """Copy this member's weights to a policy."""
        weights = self.flat[member].to(policy.device, copy=True)  # the policy's parameters become views of these
        vector_to_parameters(weights, policy.parameters())

    def distribution(self, observations: torch.Tensor) -> Normal | Categorical:
        """Each member's distribution of actions (K, B, A), or (K, B) if discrete, for observations (K, B, ...)."""
        return self.distribution_of(self.actor(observations.float()))

    def distribution_of(self, outputs: torch.Tensor) -> Normal | Categorical:
        """Each member's distribution of actions, for outputs (K, B, A) of the actor."""
        if self.log_std is None:
            return Categorical(logits=outputs, validate_args=False)
        return Normal(outputs, self.log_std.exp().unsqueeze(1).expand_as(outputs), validate_args=False)

    def values(self, observations: torch.Tensor) -> torch.Tensor:
        """Each member's values (K, B) of observations (K, B, ...)."""
        return self.critic(observations.float()).squeeze(-1)

    def _tower(self, hidden: str, last: str) -> Tower:
        modules = getattr(self.template.mlp_extractor, hidden)  # linear layers and activations in turn
        names = [*(f"mlp_extractor.{hidden}.{index}" for index in range(0, len(modules), 2)), last]
        parameters = [(f"{name}.weight", f"{name}.bias") for name in names]
        views = ([*map(self.weights.get, pair), *map(self.gradients.get, pair)] for pair in parameters)
        return Tower([(*layer, activation) for layer, activation in zip(views, [*modules[1::2], None], strict=True)])


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
