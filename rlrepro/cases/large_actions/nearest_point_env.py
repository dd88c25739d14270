"""A training run with many actions and a known best one: choose the point of a table nearest to a target."""

import psutil
import torch
from tensordict import TensorDict

from rlrepro.cases.large_actions import ACTIONS, FEATURES
from rlrepro.fixes import FactoredDQN, FactoredQ, FactoredSAC, SharedActionBuffer

ENVS, EPISODE, DISCOUNT = 8, 4, 0.5
BATCH, CAPACITY = 32, 1_000
HIDDEN = (64, 32)
LEARNING_RATE, TAU = 1e-2, 0.1
EVAL_STATES = 128  # states


class NearestPoint:
    """`ENVS` environments in parallel. A state is a target in the unit square and the fraction of the episode that is
    left; an action is a point of the table; the reward is 1 minus their squared distance. Then the target jumps."""

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
        """Transitions of all environments; when an episode ends, a new one begins."""
        observation = self.states()
        reward = 1 - (self.table[actions] - self.targets).square().sum(dim=1)
        self.steps, self.targets = (self.steps + 1) % EPISODE, self._draw()
        terminated = self.steps == 0
        outcome = {"observation": self.states(), "reward": reward, "terminated": terminated, "done": terminated}
        return TensorDict({"observation": observation, "action": actions, "next": outcome}, batch_size=[ENVS])


def train(method: str, updates: int, seed: int, device: str, count: int = ACTIONS) -> dict:
    """Train with "dqn" or "sac" on `count` actions.

    Returns means over `EVAL_STATES` states after training: the `reward` of the chosen actions, of the `best` ones and
    of random ones (`chance`), the `value` estimated for the best action, and its `true_value`. Also returns `resident`:
    the resident bytes of this process after each tenth of the updates in the second half, when the allocator has
    settled.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(count, FEATURES, generator=generator)
    env, learner = NearestPoint(table, generator), _learner(method, table.to(device))
    buffer = SharedActionBuffer(CAPACITY, table, device=device, batch_size=BATCH)
    epsilon = {"dqn": 0.3, "sac": 0.0}[method]
    while len(buffer) < CAPACITY:
        buffer.extend(env.step(torch.randint(count, (ENVS,), generator=generator)))
    resident, process = [], psutil.Process()
    for update in range(updates):
        actions = learner.act(env.states().to(device)).cpu()
        random_actions = torch.randint(count, (ENVS,), generator=generator)
        buffer.extend(env.step(torch.where(torch.rand(ENVS, generator=generator) < epsilon, random_actions, actions)))
        learner.update(buffer.sample())
        if update + 1 >= updates / 2 and (update + 1) % max(1, updates // 10) == 0:
            resident.append(process.memory_info().rss)
    return _evaluate(learner, method, table, generator, device) | {"resident": resident}


def _learner(method: str, table: torch.Tensor):
    networks = [FactoredQ(FEATURES + 1, FEATURES, HIDDEN).to(table.device) for _ in range(1 if method == "dqn" else 3)]
    options = {"discount": DISCOUNT, "tau": TAU, "learning_rate": LEARNING_RATE}
    if method == "dqn":
        return FactoredDQN(*networks, table, **options)
    return FactoredSAC(networks[0], (networks[1], networks[2]), table, entropy_share=0.3, **options)


def _evaluate(learner, method, table, generator, device) -> dict:
    targets = torch.rand(EVAL_STATES, FEATURES, generator=generator)
    states = torch.cat([targets, torch.ones(EVAL_STATES, 1)], dim=1).to(device)
    actions = learner.act(states, **({"greedy": True} if method == "sac" else {})).cpu()
    rewards = 1 - torch.cdist(targets, table).square()  # (EVALUATED, count)
    best, chance = rewards.amax(dim=1), rewards.mean()
    critic = learner.network if method == "dqn" else learner.critics[0]
    with torch.no_grad():
        value = critic.best(states, learner.actions).values.mean()
    return {
        "reward": rewards[torch.arange(EVAL_STATES), actions].mean().item(),
        "best": best.mean().item(),
        "chance": chance.item(),
        "value": value.item(),
        "true_value": (best.mean() * sum(DISCOUNT**step for step in range(EPISODE))).item(),
    }
