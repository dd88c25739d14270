"""Soft actor-critic over many actions with features, whose update never allocates (batch, actions, hidden)."""

from copy import deepcopy

import torch
from tensordict import TensorDictBase
from torch.nn.functional import mse_loss

from .factored_dqn import bootstrapped, next_available, soft_update
from .factored_q import FactoredQ, check_available, expected_minimum


class FactoredSAC:
    """Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207) on three FactoredQ.

    Args:
        actor: returns the logit of each action from its features, so that what it learns about one action generalizes
            to similar ones
        critics: two Q-networks; copies become their targets
        actions: (A, d) features of all actions, on the networks' device
        discount: per step
        tau: weight of the online critics when their targets are updated, after each gradient step
        learning_rate: of Adam, for actor, critics and temperature
        entropy_share: target entropy of the policy, as a fraction of log(number of available actions)

    `act` samples actions, `update` learns from a batch like FactoredDQN's. It allocates (B, A) for policy and values.
    """

    def __init__(
        self,
        actor: FactoredQ,
        critics: tuple[FactoredQ, FactoredQ],
        actions: torch.Tensor,
        *,
        discount: float = 0.99,
        tau: float = 0.005,
        learning_rate: float = 1e-3,
        entropy_share: float = 0.5,
    ):
        self.actor, self.critics, self.actions = actor, list(critics), actions
        self.targets = [deepcopy(critic).requires_grad_(False) for critic in critics]
        self.discount, self.tau, self.entropy_share = discount, tau, entropy_share
        self.log_temperature = torch.zeros((), device=actions.device, requires_grad=True)
        learned = [*actor.parameters(), *critics[0].parameters(), *critics[1].parameters(), self.log_temperature]
        self.optimizer = torch.optim.Adam(learned, lr=learning_rate)

    def act(self, states: torch.Tensor, available: torch.Tensor | None = None, *, greedy: bool = False) -> torch.Tensor:
        """An action (B,) for each state (B, S): sampled from the policy or, if `greedy`, the most likely one."""
        with torch.no_grad():
            log_policy = self.log_policy(states, available)
        return log_policy.argmax(dim=1) if greedy else log_policy.exp().multinomial(1).squeeze(1)

    def log_policy(self, states: torch.Tensor, available: torch.Tensor | None = None) -> torch.Tensor:
        """Log-probabilities of all actions (B, A), -inf if they are not available."""
        check_available(available, len(states), len(self.actions))
        logits = self.actor(states, self.actions)
        return (logits if available is None else logits.masked_fill(~available, -torch.inf)).log_softmax(dim=1)

    def update(self, batch: TensorDictBase) -> dict[str, float]:
        """One gradient step of actor, critics and temperature. Returns `critic_loss`, `actor_loss`, `entropy` (mean, in
        nats) and `temperature`."""
        states, features = batch["observation"], self.actions[batch["action"].reshape(len(batch))]
        td_targets = self.td_targets(batch)
        critic_loss = sum(mse_loss(critic.of(states, features), td_targets) for critic in self.critics)
        actor_loss, entropy, max_entropy = self._actor_loss(states, batch.get("action_mask", None))
        temperature_loss = self.log_temperature * (entropy - self.entropy_share * max_entropy).mean()
        self.optimizer.zero_grad()
        (critic_loss + actor_loss + temperature_loss).backward()
        self.optimizer.step()
        for target, critic in zip(self.targets, self.critics, strict=True):
            soft_update(target, critic, self.tau)
        return {
            "critic_loss": critic_loss.item(),
            "actor_loss": actor_loss.item(),
            "entropy": entropy.mean().item(),
            "temperature": self.temperature,
        }

    @property
    def temperature(self) -> float:
        """The reward that one unit of entropy is worth."""
        return self.log_temperature.exp().item()

    def td_targets(self, batch: TensorDictBase) -> torch.Tensor:
        """TD targets (B,): the reward plus the discounted soft value of the next state."""
        next_states = batch["next", "observation"]
        with torch.no_grad():
            log_policy = self.log_policy(next_states, next_available(batch))
            policy = log_policy.exp()
            values = expected_minimum(self.targets, next_states, self.actions, policy)
            soft_values = values + self.temperature * _entropy(policy, log_policy)
        return bootstrapped(batch, soft_values, self.discount)

    def _actor_loss(self, states, available):
        """The loss (equation 12 of the paper), the policy's entropy (B,) and the largest possible entropy (B,)."""
        log_policy = self.log_policy(states, available)
        policy = log_policy.exp()
        with torch.no_grad():
            values = torch.minimum(*(critic(states, self.actions) for critic in self.critics))
        entropy = _entropy(policy, log_policy)
        loss = -((policy * values).sum(dim=1) + self.temperature * entropy).mean()
        count = torch.tensor(float(len(self.actions))) if available is None else available.sum(dim=1)
        return loss, entropy.detach(), count.log()


def _entropy(policy: torch.Tensor, log_policy: torch.Tensor) -> torch.Tensor:
    return -(policy * log_policy.where(policy > 0, 0.0)).sum(dim=1)
