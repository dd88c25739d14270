"""PPO on vector observations, for whichever tianshou is imported: rollouts, networks and a full training run."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Independent, Normal

from rlrepro.cases.common.tianshou_ppo import ACTIONS, EPISODE, categorical, ppo

FEATURES, HIDDEN = 64, 128
STEPS = 512  # environment steps between updates


def mlp(inputs: int, outputs: int, hidden: int = HIDDEN) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


class VectorCritic(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.body = mlp(features, 1)

    def forward(self, obs, **_):
        return self.body(_tensor(obs, self))  # (rows, 1)


class DiscreteActor(nn.Module):
    def __init__(self, features: int, actions: int):
        super().__init__()
        self.body = mlp(features, actions)

    def forward(self, obs, state=None, info=None, **_):
        return self.body(_tensor(obs, self)), state  # (rows, actions)


class GaussianActor(nn.Module):
    def __init__(self, features: int, actions: int):
        super().__init__()
        self.body = mlp(features, actions)
        self.log_scale = nn.Parameter(torch.zeros(actions))

    def forward(self, obs, state=None, info=None, **_):
        mean = self.body(_tensor(obs, self))  # (rows, actions)
        return (mean, self.log_scale.exp().expand_as(mean)), state


def _tensor(obs, module):
    return torch.as_tensor(obs, dtype=torch.float32, device=next(module.parameters()).device)


def plain_normal(*parameters):
    """A distribution over (rows, actions) without `Independent`: its log-probabilities have that shape too."""
    return Normal(*(parameters if len(parameters) == 2 else parameters[0]))


def independent_normal(*parameters):
    """The same, but with one log-probability per transition, as in tianshou's own examples."""
    return Independent(plain_normal(*parameters), 1)


DISTRIBUTIONS = {"categorical": categorical, "independent": independent_normal, "plain normal": plain_normal}


def vector_ppo(distribution: str, actions: int, max_batchsize: int, seed: int = 0, device: str = "cpu", **options):
    """PPO for `actions` continuous actions, or for one discrete action; `options` as in `tianshou_ppo.ppo`."""
    torch.manual_seed(seed)
    discrete = distribution == "categorical"
    actor = options.pop("actor", None) or (
        DiscreteActor(FEATURES, ACTIONS) if discrete else GaussianActor(FEATURES, actions)
    )
    return ppo(
        actor.to(device),
        VectorCritic(FEATURES).to(device),
        dist_fn=DISTRIBUTIONS[distribution],
        action_space=spaces.Discrete(ACTIONS) if discrete else spaces.Box(-1, 1, (actions,)),
        max_batchsize=max_batchsize,
        **options,
    )


def vector_rollout(rows: int, actions: int | None = None, seed: int = 0):
    """(batch, buffer, indices) of `rows` random transitions with (64,) observations in a real ReplayBuffer.

    Each action has `actions` continuous dimensions; with None, it is one of `ACTIONS` discrete actions.
    """
    from tianshou.data import Batch, ReplayBuffer

    rng = np.random.default_rng(seed)
    observations = rng.standard_normal((rows + 1, FEATURES), dtype=np.float32)
    acts = rng.standard_normal((rows, actions), dtype=np.float32) if actions else rng.integers(0, ACTIONS, rows)
    rewards = rng.standard_normal(rows)
    buffer = ReplayBuffer(rows)
    for row in range(rows):
        done = (row + 1) % EPISODE == 0
        fields = {
            "obs": observations[row],
            "obs_next": observations[row + 1],
            "act": acts[row],
            "rew": rewards[row],
        }
        buffer.add(Batch(**fields, terminated=done, truncated=False, done=done, info={}))
    batch, indices = buffer.sample(0)
    return batch, buffer, indices


def train_cartpole(
    cls=None, *, updates: int, max_batchsize: int, seed: int = 0, device: str = "cpu", nudged: bool = False
) -> dict:
    """A seeded PPO training run on CartPole-v1 with tianshou 1.0.0, with `cls` in place of PPOPolicy. `nudged` moves
    the largest weight of the first layer to the next larger float32 before training.

    Returns `weights`, all weights before training and after each update, (updates + 1, weights), and `returns`, one per
    episode. A minibatch has 64 transitions, whatever max_batchsize is.
    """
    from tianshou.data import Collector, ReplayBuffer
    from tianshou.env import DummyVectorEnv

    np.random.seed(seed)
    torch.manual_seed(seed)
    env = DummyVectorEnv([lambda: gym.make("CartPole-v1")])
    env.seed(seed)
    space = gym.make("CartPole-v1").action_space
    policy = ppo(
        DiscreteActor(4, 2).to(device),
        VectorCritic(4).to(device),
        action_space=space,
        max_batchsize=max_batchsize,
        cls=cls,
        lr=1e-3,
    )

    def weights():
        return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()]).cpu().numpy()

    if nudged:
        with torch.no_grad():
            layer = next(policy.parameters()).view(-1)
            largest = layer[layer.argmax()]  # nudging a smaller one may change nothing: later sums round it away
            largest.copy_(torch.nextafter(largest, torch.full_like(largest, torch.inf)))
    history = [weights()]
    collector = Collector(policy, env, ReplayBuffer(STEPS))
    returns = []
    for _ in range(updates):
        returns += [float(value) for value in collector.collect(n_step=STEPS).returns]
        policy.update(0, collector.buffer, batch_size=64, repeat=4)
        collector.reset_buffer(keep_statistics=True)
        history.append(weights())
    return {"weights": np.stack(history), "returns": returns}
