"""Updates written by hand, as single-file scripts write them: DQN, SAC and PPO with gradient accumulation."""

import copy
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from rlrepro.cases.two_batch_sizes.error_study.library_runs import measured
from rlrepro.lab import VirtualCard


@dataclass(frozen=True)
class Options:
    shape: tuple[int, ...]
    actions: int
    dtype: str  # of the networks; "autocast": float32, with bfloat16 where autocast takes it
    optimizer: type[torch.optim.Optimizer]
    parts: int  # of a batch, whose gradients are accumulated
    clip: bool  # gradients by their norm

    def network(self, body, inputs: int, outputs: int) -> nn.Module:
        dtype = torch.float32 if self.dtype == "autocast" else getattr(torch, self.dtype)
        return Head(body, inputs, outputs).to(dtype)

    def observations(self, rows: int) -> torch.Tensor:
        if len(self.shape) == 3:
            return torch.randint(0, 256, (rows, *self.shape), dtype=torch.uint8)
        return torch.randn(rows, *self.shape)

    def precision(self):
        return torch.autocast("cpu", torch.bfloat16) if self.dtype == "autocast" else nullcontext()

    def descend(self, optimizer, losses) -> None:
        """A step along the gradients of all losses, each computed when it is its turn."""
        optimizer.zero_grad()
        for loss in losses:
            loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        optimizer.step()


class Head(nn.Module):
    """A body and a linear layer; further inputs are put next to the features."""

    def __init__(self, body, inputs: int, outputs: int):
        super().__init__()
        self.body, self.head = body, nn.Linear(inputs, outputs)

    def forward(self, rows, *more):
        features = self.body(rows)
        return self.head(torch.cat([features, *(each.to(features.dtype) for each in more)], -1) if more else features)


def dqn(bodies, options: Options):
    def make():
        ((body, width),) = bodies(1)
        network = options.network(body, width, options.actions)
        return network, copy.deepcopy(network), options.optimizer(network.parameters(), lr=1e-4)

    def loss(network, target, rows):
        obs, following, actions = (
            options.observations(rows),
            options.observations(rows),
            torch.randint(options.actions, (rows, 1)),
        )
        with options.precision():
            with torch.no_grad():
                goals = torch.randn(rows, 1) + 0.99 * target(following).max(1, keepdim=True).values.float()
            return F.smooth_l1_loss(network(obs).gather(1, actions).float(), goals)

    def step(state, batch_size):
        network, target, optimizer = state
        rows = batch_size // options.parts
        options.descend(optimizer, (loss(network, target, rows) for _ in range(options.parts)))
        target.load_state_dict(network.state_dict())

    return make, step


def sac(bodies, options: Options):
    actions = options.actions

    def make():
        (actor_body, width), *critics = bodies(3)
        actor = options.network(actor_body, width, 2 * actions)
        critics = nn.ModuleList(options.network(body, width + actions, 1) for body, width in critics)
        optimizers = [options.optimizer(each.parameters(), lr=1e-4) for each in (actor, critics)]
        return actor, critics, copy.deepcopy(critics), *optimizers

    def act(actor, obs):
        mean, log_scale = actor(obs).float().chunk(2, -1)
        distribution = torch.distributions.Normal(mean, log_scale.clamp(-5, 2).exp())
        sample = distribution.rsample()
        return sample.tanh(), distribution.log_prob(sample).sum(-1, keepdim=True)

    def step(state, batch_size):
        actor, critics, targets, of_actor, of_critics = state
        obs, following = options.observations(batch_size), options.observations(batch_size)
        taken = torch.rand(batch_size, actions)
        with options.precision():
            with torch.no_grad():
                action, log_prob = act(actor, following)
                value = torch.min(*(target(following, action) for target in targets)).float()
                goals = torch.randn(batch_size, 1) + 0.99 * (value - 0.2 * log_prob)
            loss = sum(F.mse_loss(critic(obs, taken).float(), goals) for critic in critics)
        options.descend(of_critics, [loss])
        with options.precision():
            action, log_prob = act(actor, obs)
            loss = (0.2 * log_prob - torch.min(*(critic(obs, action) for critic in critics)).float()).mean()
        options.descend(of_actor, [loss])
        with torch.no_grad():
            for target, weight in zip(targets.parameters(), critics.parameters(), strict=True):
                target.lerp_(weight, 0.005)

    return make, step


STEPS = {"dqn": dqn, "sac": sac}


def run(make, step) -> dict[str, tuple[int, int]]:
    """(live tensors, allocated bytes) of the third update. Those before are measured too, since the profiler knows the
    end of a block only if it saw its beginning."""
    with VirtualCard(None, device="cpu") as card:
        state = make()
        return [measured({"update": lambda: step(state)}, card) for _ in range(3)][-1]
