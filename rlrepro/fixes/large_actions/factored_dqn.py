"""DQN over many actions with features, whose update never holds (batch, actions, hidden)."""

from copy import deepcopy

import torch
from tensordict import TensorDictBase
from torch.nn.functional import smooth_l1_loss

from .factored_q import FactoredQ


class FactoredDQN:
    """Double DQN (van Hasselt et al. 2015, arXiv:1509.06461) on a FactoredQ.

    network        the online Q-network; a copy becomes the target
    actions        (A, d) features of all actions, on the network's device
    discount       of a step
    tau            share of the online weights that goes into the target's after each update
    learning_rate  of Adam

    `act` chooses, `update` learns from a batch in TorchRL's form, as SharedActionBuffer gives it: "observation",
    "action" (rows of the table), ("next", "observation"), ("next", "reward"), ("next", "terminated"), and masks where
    not every action is available.
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
        """One gradient step. Returns the loss and the mean of the values that were learned from."""
        found = self.network.of(batch["observation"], self.actions[batch["action"].reshape(len(batch))])
        goal = self.goals(batch)
        loss = smooth_l1_loss(found, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        follow(self.target, self.network, self.tau)
        return {"loss": loss.item(), "value": goal.mean().item()}

    def goals(self, batch: TensorDictBase) -> torch.Tensor:
        """What the values (B,) should be: the reward, and the target's value of the best next action."""
        after, available = batch["next", "observation"], next_available(batch)
        with torch.no_grad():
            chosen = self.network.best(after, self.actions, available).indices
            following = self.target.of(after, self.actions[chosen])
        return discounted(batch, following, self.discount)


def discounted(batch: TensorDictBase, following: torch.Tensor, discount: float) -> torch.Tensor:
    """The reward of each transition (B,) and the discounted value (B,) of what follows, where anything does."""
    reward, terminated = (batch["next", key].reshape(len(batch)) for key in ("reward", "terminated"))
    return reward + discount * following.where(~terminated.bool(), 0.0)


def next_available(batch: TensorDictBase) -> torch.Tensor | None:
    """Which actions (B, A) are available next, where the batch says so. Where nothing follows, all count as available:
    a game that is over may list none."""
    mask = batch.get(("next", "action_mask"), None)
    return None if mask is None else mask | batch["next", "terminated"].bool().reshape(-1, 1)


def follow(target: torch.nn.Module, online: torch.nn.Module, tau: float) -> None:
    """Move the target's weights towards the online ones by this share."""
    with torch.no_grad():
        for old, new in zip(target.parameters(), online.parameters(), strict=True):
            old.lerp_(new, tau)
