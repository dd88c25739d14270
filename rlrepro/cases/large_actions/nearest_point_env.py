"""A training with many actions whose best action is known: choose the point of a table nearest to a moving target."""

import time

import psutil
import torch
from tensordict import TensorDict

from rlrepro.cases.large_actions import ACTIONS, FEATURES
from rlrepro.fixes import FactoredDQN, FactoredQ, FactoredSAC, SharedActionBuffer

ENVS, EPISODE, DISCOUNT = 8, 4, 0.5
BATCH, CAPACITY = 32, 1_000
HIDDEN = (64, 32)
LEARNING_RATE, TAU = 1e-2, 0.1
TRIED = 256  # states


class NearestPoint:
    """`ENVS` copies side by side. A state is a target in the unit square and the share of the episode that is left; an
    action is a point of the table; the reward is 1 less their squared distance. Then the target jumps."""

    def __init__(self, table: torch.Tensor, generator: torch.Generator):
        self.table, self.generator = table, generator
        self.steps = torch.arange(ENVS) % EPISODE
        self.targets = self._draw()

    def _draw(self):
        return torch.rand(ENVS, FEATURES, generator=self.generator)

    def states(self) -> torch.Tensor:
        """(ENVS, FEATURES + 1)."""
        return torch.cat([self.targets, (1 - self.steps / EPISODE).unsqueeze(1)], dim=1)

    def step(self, actions: torch.Tensor) -> TensorDict:
        """Transitions of all copies; those whose episode ends begin another."""
        before = self.states()
        reward = 1 - (self.table[actions] - self.targets).square().sum(dim=1)
        self.steps, self.targets = (self.steps + 1) % EPISODE, self._draw()
        terminated = self.steps == 0
        after = {"observation": self.states(), "reward": reward, "terminated": terminated, "done": terminated}
        return TensorDict({"observation": before, "action": actions, "next": after}, batch_size=[ENVS])


def train(method: str, updates: int, seed: int, device: str) -> dict:
    """Train by "dqn" or "sac" with `ACTIONS` actions, in a process of its own.

    Returns, of `TRIED` states at the end: `reward` of the actions that are chosen, `best` of the best ones, `chance` of
    random ones, `value` that is expected of the best and `true_value` of always choosing it; and, since the buffer was
    full, `resident`: bytes of this process after each tenth of the updates.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(ACTIONS, FEATURES, generator=generator)
    env, learner = NearestPoint(table, generator), _learner(method, table.to(device))
    buffer = SharedActionBuffer(CAPACITY, table, device=device, batch_size=BATCH)
    exploring = {"dqn": 0.3, "sac": 0.0}[method]
    while len(buffer) < CAPACITY:
        buffer.extend(env.step(torch.randint(ACTIONS, (ENVS,), generator=generator)))
    resident, process, start = [], psutil.Process(), time.perf_counter()
    for update in range(updates):
        actions = learner.act(env.states().to(device)).cpu()
        random = torch.randint(ACTIONS, (ENVS,), generator=generator)
        buffer.extend(env.step(torch.where(torch.rand(ENVS, generator=generator) < exploring, random, actions)))
        learner.update(buffer.sample())
        if (update + 1) % max(1, updates // 10) == 0:
            resident.append(process.memory_info().rss)
    found = _evaluate(learner, method, table, generator, device)
    return found | {"resident": resident, "seconds": time.perf_counter() - start}


def _learner(method: str, table: torch.Tensor):
    networks = [FactoredQ(FEATURES + 1, FEATURES, HIDDEN).to(table.device) for _ in range(1 if method == "dqn" else 3)]
    options = {"discount": DISCOUNT, "tau": TAU, "learning_rate": LEARNING_RATE}
    if method == "dqn":
        return FactoredDQN(*networks, table, **options)
    return FactoredSAC(networks[0], (networks[1], networks[2]), table, entropy_share=0.3, **options)


def _evaluate(learner, method, table, generator, device) -> dict:
    targets = torch.rand(TRIED, FEATURES, generator=generator)
    states = torch.cat([targets, torch.ones(TRIED, 1)], dim=1).to(device)
    chosen = learner.act(states, **({"greedy": True} if method == "sac" else {})).cpu()
    rewards = 1 - torch.cdist(targets, table).square()  # (TRIED, ACTIONS)
    best, chance = rewards.amax(dim=1), rewards.mean()
    critic = learner.network if method == "dqn" else learner.critics[0]
    with torch.no_grad():
        value = critic.best(states, learner.actions).values.mean()
    return {
        "reward": rewards[torch.arange(TRIED), chosen].mean().item(),
        "best": best.mean().item(),
        "chance": chance.item(),
        "value": value.item(),
        "true_value": (best.mean() * sum(DISCOUNT**step for step in range(EPISODE))).item(),
    }
