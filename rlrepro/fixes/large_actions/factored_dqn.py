"""DQN over many actions with features, whose update never allocates (batch, actions, hidden)."""

from copy import deepcopy

import torch
from tensordict import TensorDictBase
from torch.nn.functional import smooth_l1_loss

from .factored_q import FactoredQ


class FactoredDQN:
    """Double DQN (van Hasselt et al. 2015, arXiv:1509.06461) on a FactoredQ.

    Args:
        network: the online Q-network; a copy becomes the target
        actions: (A, d) features of all actions, on the network's device
        discount: per step
        tau: weight of the online network when the target is updated, after each gradient step
        learning_rate: of Adam

    `act` chooses actions. `update` learns from a batch in TorchRL's format, as SharedActionBuffer returns it:
    "observation", "action" (indices into the table), ("next", "observation"), ("next", "reward"),
    ("next", "terminated"), and masks if not every action is available.
    """

    def __init__(
        self,
        network: FactoredQ,
        actions: torch.Tensor,
        *,
        discount: float = 0.99,
        tau: float = 0.005,
        learning_rate: float = 1e-3,
    ):
        self.network, self.actions, self.discount, self.tau = network, actions, discount, tau
        self.target = deepcopy(network).requires_grad_(False)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)

    def act(self, states: torch.Tensor, available: torch.Tensor | None = None) -> torch.Tensor:
        """The action (B,) with the largest value in each state (B, S)."""
        with torch.no_grad():
            return self.network.best(states, self.actions, available).indices

    def update(self, batch: TensorDictBase) -> dict[str, float]:
        """One gradient step. Returns the loss and the mean TD target."""
        values = self.network.of(batch["observation"], self.actions[batch["action"].reshape(len(batch))])
        td_targets = self.td_targets(batch)
        loss = smooth_l1_loss(values, td_targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        soft_update(self.target, self.network, self.tau)
        return {"loss": loss.item(), "value": td_targets.mean().item()}

    def td_targets(self, batch: TensorDictBase) -> torch.Tensor:
        """TD targets (B,): the reward plus the discounted target value of the action that the network prefers next."""
        next_states, available = batch["next", "observation"], next_available(batch)
        with torch.no_grad():
            next_actions = self.network.best(next_states, self.actions, available).indices
            next_values = self.target.of(next_states, self.actions[next_actions])
        return bootstrapped(batch, next_values, self.discount)


def bootstrapped(batch: TensorDictBase, next_values: torch.Tensor, discount: float) -> torch.Tensor:
    """The reward of each transition plus, unless it ends the episode, the discounted value of its next state: (B,)."""
    reward, terminated = (batch["next", key].reshape(len(batch)) for key in ("reward", "terminated"))
    return reward + discount * next_values.where(~terminated.bool(), 0.0)


def next_available(batch: TensorDictBase) -> torch.Tensor | None:
    """Which actions are available next (B, A); None if the batch has no masks. After the end of an episode, all
    count as available, because the environment may list none."""
    mask = batch.get(("next", "action_mask"), None)
    return None if mask is None else mask | batch["next", "terminated"].bool().reshape(-1, 1)


def soft_update(target: torch.nn.Module, online: torch.nn.Module, tau: float) -> None:
    """Move the target's weights towards the online ones by the fraction `tau`."""
    with torch.no_grad():
        for target_weight, weight in zip(target.parameters(), online.parameters(), strict=True):
            target_weight.lerp_(weight, tau)
