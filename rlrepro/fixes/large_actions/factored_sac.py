"""Soft actor-critic over many actions with features, whose update never holds (batch, actions, hidden)."""

from copy import deepcopy

import torch
from tensordict import TensorDictBase
from torch.nn.functional import mse_loss

from .factored_dqn import discounted, follow, next_available
from .factored_q import FactoredQ, check_available, expected_minimum


class FactoredSAC:
    """Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207) on three FactoredQ.

    actor           gives the logit of each action; a network over action features as well, so that what is learned of
                    an action tells about those like it
    critics         two Q-networks; copies become their targets
    actions         (A, d) features of all actions, on the networks' device
    discount        of a step
    tau             share of the online weights that goes into the targets' after each update
    learning_rate   of Adam, for all three and the temperature
    entropy_share   the policy's entropy is held at this share of log(number of available actions)

    `act` draws, `update` learns from a batch as FactoredDQN's does. Values of all actions are held as (B, A) numbers.
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
        """An action (B,) for each state (B, S), drawn from the policy, or its most likely one."""
        with torch.no_grad():
            log_policy = self.log_policy(states, available)
        return log_policy.argmax(dim=1) if greedy else log_policy.exp().multinomial(1).squeeze(1)

    def log_policy(self, states: torch.Tensor, available: torch.Tensor | None = None) -> torch.Tensor:
        """Log-probabilities of all actions (B, A), -inf where they are not available."""
        check_available(available, len(states), len(self.actions))
        logits = self.actor(states, self.actions)
        return (logits if available is None else logits.masked_fill(~available, -torch.inf)).log_softmax(dim=1)

    def update(self, batch: TensorDictBase) -> dict[str, float]:
        """One gradient step of actor, critics and temperature. Returns their losses, the policy's entropy and the
        temperature."""
        states, features = batch["observation"], self.actions[batch["action"].reshape(len(batch))]
        goal = self.goals(batch)
        critic_loss = sum(mse_loss(critic.of(states, features), goal) for critic in self.critics)
        actor_loss, entropy, most = self._actor_loss(states, batch.get("action_mask", None))
        temperature_loss = self.log_temperature * (entropy - self.entropy_share * most).mean()
        self.optimizer.zero_grad()
        (critic_loss + actor_loss + temperature_loss).backward()
        self.optimizer.step()
        for target, critic in zip(self.targets, self.critics, strict=True):
            follow(target, critic, self.tau)
        return {
            "critic_loss": critic_loss.item(),
            "actor_loss": actor_loss.item(),
            "entropy": entropy.mean().item(),
            "temperature": self.temperature,
        }

    @property
    def temperature(self) -> float:
        """What a unit of entropy is worth in reward."""
        return self.log_temperature.exp().item()

    def goals(self, batch: TensorDictBase) -> torch.Tensor:
        """What the values (B,) should be: the reward, and the soft value of the next state."""
        after = batch["next", "observation"]
        with torch.no_grad():
            log_policy = self.log_policy(after, next_available(batch))
            policy = log_policy.exp()
            value = expected_minimum(self.targets, after, self.actions, policy)
            following = value + self.temperature * _entropy(policy, log_policy)
        return discounted(batch, following, self.discount)

    def _actor_loss(self, states, available):
        """Equation 12 of the paper, the policy's entropy (B,), and the largest there can be (B,)."""
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
