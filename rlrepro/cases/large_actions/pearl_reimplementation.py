"""What Pearl stores and computes, without Pearl: the functions of `pearl`, written from a description of its scheme. A
test compares them with Pearl itself where Pearl is available.

Each stored transition has its own copy of all actions' features and a mask, once for the state and once for the next
state. An update repeats the state for every action and passes all pairs through both critics. Their graph lives until
the end of the update, because the actor's backward pass is called with retain_graph=True.
"""

import itertools
import random
from collections import deque

import torch
from torch import nn

from rlrepro.cases.large_actions import BATCH, HIDDEN, STATE
from rlrepro.lab import peak_memory


def stored(count: int, features: int, *, history: int | None = None, copies: int | None = None) -> dict[str, int]:
    sizes = {}
    for name, tensor in _transition(count, features, history=history, copies=copies).items():
        part = "masks" if name.startswith("mask") else name
        part = part if part in ("state", "next state", "action", "available now", "available next", "masks") else "rest"
        sizes[part] = sizes.get(part, 0) + tensor.untyped_storage().nbytes()
    return sizes


def update_peak(count: int, features: int, batch_size: int, device: str) -> int:
    learner = _Learner(count, features, device)
    batch = _batch([_transition(count, features) for _ in range(batch_size)], device)
    return peak_memory(lambda: learner.update(batch), device=device).peak_bytes


def batch_peak(count: int, batch_size: int, *, one_hot: bool) -> int:
    transitions = [_transition(count, 1) for _ in range(batch_size)]

    def prepare():
        batch = _batch(transitions, "cpu")
        for name in ("action", "available now", "available next") if one_hot else ():
            batch[name] = nn.functional.one_hot(batch[name].squeeze(-1).long(), count).float()
        return batch

    return peak_memory(prepare, device="cpu").peak_bytes


def since_start(count: int, features: int, stored_at: list[int], capacity: int, device: str) -> list[dict[str, int]]:
    learner, memory, pushed, sizes = _Learner(count, features, device), deque(maxlen=capacity), 0, []

    def learn():
        learner.update(_batch(random.sample(memory, min(len(memory), BATCH)), device))

    for target_size in stored_at:
        while pushed < target_size:
            memory.append(_transition(count, features))
            pushed += 1
        buffer_bytes = sum(tensor.untyped_storage().nbytes() for transition in memory for tensor in transition.values())
        sizes.append({"peak": peak_memory(learn, device=device).peak_bytes, "held": buffer_bytes})
    return sizes


def q_values(net: nn.Module, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """Values (B, A) of the actions (B, A, d) available in each state (B, S); the state is repeated for every action."""
    states = torch.repeat_interleave(states.unsqueeze(1), actions.shape[1], dim=1)  # (B, A, S)
    pairs = torch.cat([states, actions], dim=-1)  # (B, A, S + d)
    return net(pairs).squeeze(-1)


def network(inputs: int, outputs: int) -> nn.Sequential:
    """The critics' layers, and the actor's except its softmax. As in Pearl, each layer is a block with its ReLU, so the
    outer loop still holds a block's input while the block computes."""
    blocks = (nn.Sequential(nn.Linear(*widths), nn.ReLU()) for widths in itertools.pairwise([inputs, *HIDDEN]))
    return nn.Sequential(*blocks, nn.Linear(HIDDEN[-1], outputs))


class _Learner:
    def __init__(self, count: int, features: int, device: str):
        self.critics, self.targets = (
            [network(STATE + features, 1).to(device) for _ in range(2)] for _ in ("online", "target")
        )
        self.actor = nn.Sequential(network(STATE, count), nn.Softmax(dim=-1)).to(device)
        self.actor_optimizer = torch.optim.AdamW(self.actor.parameters(), lr=1e-4)
        parameters = [parameter for critic in self.critics for parameter in critic.parameters()]
        self.critic_optimizer = torch.optim.AdamW(parameters, lr=1e-4)

    def update(self, batch) -> None:
        actor_loss = self._actor_loss(batch)
        self.actor_optimizer.zero_grad()
        actor_loss.backward(retain_graph=True)
        self.actor_optimizer.step()
        self.critic_optimizer.zero_grad()
        self._critic_loss(batch).backward()
        self.critic_optimizer.step()
        with torch.no_grad():
            for target, critic in zip(self.targets, self.critics, strict=True):
                for target_weight, weight in zip(target.parameters(), critic.parameters(), strict=True):
                    target_weight.lerp_(weight, 0.005)

    def _actor_loss(self, batch):
        values = torch.minimum(*(q_values(critic, batch["state"], batch["available now"]) for critic in self.critics))
        policy = self.actor(batch["state"])
        values[batch["mask now"]] = 0.0
        return (policy * (0.2 * torch.log(policy + 1e-8) - values)).mean()

    def _critic_loss(self, batch):
        with torch.no_grad():
            next_states, next_actions = batch["next state"], batch["available next"]
            values = torch.minimum(*(q_values(target, next_states, next_actions) for target in self.targets))
            values[batch["mask next"]] = 0.0
            policy = self.actor(next_states)
            td_target = batch["reward"] + 0.99 * ((values - 0.2 * torch.log(policy + 1e-8)) * policy).sum(dim=1)
        pairs = torch.cat([batch["state"], batch["action"]], dim=1)
        return sum(nn.functional.mse_loss(critic(pairs).squeeze(1), td_target) for critic in self.critics)


def _transition(count: int, features: int, *, history: int | None = None, copies: int | None = None) -> dict:
    shape = (1, history, STATE + features) if history else (1, STATE)
    table = torch.arange(count, dtype=torch.float32).unsqueeze(1) if features == 1 else torch.rand(count, features)
    transition = {
        "state": torch.rand(shape),
        "next state": torch.rand(shape),
        "action": table[:1].clone(),
        "reward": torch.ones(1),
        "terminated": torch.zeros(1, dtype=torch.bool),
        "truncated": torch.zeros(1, dtype=torch.bool),
    }
    for timestep in ("now", "next"):
        transition[f"available {timestep}"] = table.unsqueeze(0).clone()
        transition[f"mask {timestep}"] = torch.zeros(1, count, dtype=torch.bool)
    return transition | ({"bootstrap": torch.ones(1, copies)} if copies else {})


def _batch(transitions: list[dict], device: str) -> dict:
    return {name: torch.cat([transition[name] for transition in transitions]).to(device) for name in transitions[0]}
