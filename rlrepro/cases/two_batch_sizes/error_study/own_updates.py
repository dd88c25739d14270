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
    dtype: str  # of the networks; "autocast": float32, with bfloat16 where autocast uses it
    optimizer: type[torch.optim.Optimizer]
    parts: int  # into which a batch is split to accumulate gradients
    clip: bool  # gradients, by their norm
    device: str

    def network(self, body, inputs: int, outputs: int) -> nn.Module:
        dtype = torch.float32 if self.dtype == "autocast" else getattr(torch, self.dtype)
        return Head(body, inputs, outputs).to(dtype)

    def observations(self, rows: int) -> torch.Tensor:
        if len(self.shape) == 3:
            return torch.randint(0, 256, (rows, *self.shape), dtype=torch.uint8)
        return torch.randn(rows, *self.shape)

    def precision(self):
        return torch.autocast(self.device, torch.bfloat16) if self.dtype == "autocast" else nullcontext()

    def gradient_step(self, optimizer, losses) -> None:
        """One step on the accumulated gradients of the losses, which are computed one at a time."""
        optimizer.zero_grad()
        for loss in losses:
            loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        optimizer.step()


class Head(nn.Module):
    """A body and a linear layer; further inputs are concatenated to the features."""

    def __init__(self, body, inputs: int, outputs: int):
        super().__init__()
        self.body, self.head = body, nn.Linear(inputs, outputs)

    def forward(self, rows, *extras):
        features = self.body(rows)
        return self.head(
            torch.cat([features, *(extra.to(features.dtype) for extra in extras)], -1) if extras else features
        )


def dqn(bodies, options: Options):
    def make():
        ((body, width),) = bodies(1)
        network = options.network(body, width, options.actions)
        return network, copy.deepcopy(network), options.optimizer(network.parameters(), lr=1e-4)

    def loss(network, target, rows):
        obs, next_obs, actions = (
            options.observations(rows),
            options.observations(rows),
            torch.randint(options.actions, (rows, 1)),
        )
        with options.precision():
            with torch.no_grad():
                td_targets = torch.randn(rows, 1) + 0.99 * target(next_obs).max(1, keepdim=True).values.float()
            return F.smooth_l1_loss(network(obs).gather(1, actions).float(), td_targets)

    def step(state, batch_size):
        network, target, optimizer = state
        rows = batch_size // options.parts
        options.gradient_step(optimizer, (loss(network, target, rows) for _ in range(options.parts)))
        target.load_state_dict(network.state_dict())

    return make, step


def sac(bodies, options: Options):
    actions = options.actions

    def make():
        (actor_body, width), *critics = bodies(3)
        actor = options.network(actor_body, width, 2 * actions)
        critics = nn.ModuleList(options.network(body, width + actions, 1) for body, width in critics)
        optimizers = [options.optimizer(module.parameters(), lr=1e-4) for module in (actor, critics)]
        return actor, critics, copy.deepcopy(critics), *optimizers

    def act(actor, obs):
        mean, log_scale = actor(obs).float().chunk(2, -1)
        distribution = torch.distributions.Normal(mean, log_scale.clamp(-5, 2).exp())
        sample = distribution.rsample()
        return sample.tanh(), distribution.log_prob(sample).sum(-1, keepdim=True)

    def step(state, batch_size):
        actor, critics, targets, actor_optimizer, critic_optimizer = state
        obs, next_obs = options.observations(batch_size), options.observations(batch_size)
        replayed = torch.rand(batch_size, actions)
        with options.precision():
            with torch.no_grad():
                action, log_prob = act(actor, next_obs)
                value = torch.min(*(target(next_obs, action) for target in targets)).float()
                td_targets = torch.randn(batch_size, 1) + 0.99 * (value - 0.2 * log_prob)
            loss = sum(F.mse_loss(critic(obs, replayed).float(), td_targets) for critic in critics)
        options.gradient_step(critic_optimizer, [loss])
        with options.precision():
            action, log_prob = act(actor, obs)
            loss = (0.2 * log_prob - torch.min(*(critic(obs, action) for critic in critics)).float()).mean()
        options.gradient_step(actor_optimizer, [loss])
        with torch.no_grad():
            for target, weight in zip(targets.parameters(), critics.parameters(), strict=True):
                target.lerp_(weight, 0.005)

    return make, step


STEPS = {"dqn": dqn, "sac": sac}


def run(make, step, device) -> dict[str, tuple[int, int]]:
    """What `measured` returns for the third update. The first two are measured too, since the profiler counts the free
    of a block only if it saw the allocation."""
    with VirtualCard(None, device=device) as card:
        state = make()
        return [measured({"update": lambda: step(state)}, card) for _ in range(3)][-1]
