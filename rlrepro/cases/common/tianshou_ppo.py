"""PPO on visual rollouts, built for whichever tianshou is imported: 0.5, 1.x or 2.x.

These functions run in the process of a release, so tianshou is imported where it is used.
"""

from functools import lru_cache

import numpy as np
import torch
from gymnasium import spaces
from torch.distributions import Categorical

from rlrepro.cases.common.networks import FRAMES, NETWORKS, Actor, Critic

ACTIONS = 6
EPISODE = 200  # steps


def categorical(logits):
    return Categorical(logits=logits)


def is_version_2() -> bool:
    import tianshou

    return int(tianshou.__version__.split(".")[0]) >= 2


def ppo(
    actor,
    critic,
    *,
    dist_fn=categorical,
    action_space=None,
    max_batchsize=256,
    optimizer=torch.optim.Adam,
    lr=3e-4,
    cls=None,
    **options,
):
    """The release's PPO around these networks: a PPOPolicy before tianshou 2, a PPO algorithm from 2 on.

    `cls` is a subclass to build instead. `options` are the release's own.
    """
    action_space = action_space or spaces.Discrete(ACTIONS)
    if is_version_2():
        from tianshou.algorithm import PPO
        from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
        from tianshou.algorithm.optim import TorchOptimizerFactory

        policy = ProbabilisticActorPolicy(actor=actor, dist_fn=dist_fn, action_space=action_space, action_scaling=False)
        optim = TorchOptimizerFactory(optimizer, lr=lr)
        return (cls or PPO)(policy=policy, critic=critic, optim=optim, max_batchsize=max_batchsize, **options)
    from tianshou.policy import PPOPolicy

    return (cls or PPOPolicy)(
        actor=actor,
        critic=critic,
        optim=optimizer([*actor.parameters(), *critic.parameters()], lr=lr),
        dist_fn=dist_fn,
        action_space=action_space,
        action_scaling=False,
        max_batchsize=max_batchsize,
        **options,
    )


def preprocess(algorithm, batch, buffer, indices):
    """The release's own step between collecting and learning: returns, advantages and logp_old.

    The batch given stays as it is; what comes back is a shallow copy with the new keys.
    """
    from tianshou.data import Batch

    step = algorithm._preprocess_batch if is_version_2() else algorithm.process_fn
    return step(Batch(batch), buffer, indices)


def policy_of(algorithm):
    """What maps a batch to a distribution: the algorithm's policy in tianshou 2, the policy itself before."""
    return algorithm.policy if is_version_2() else algorithm


def visual_rollout(rows: int, seed: int = 0):
    """(batch, buffer, indices) of the first `rows` rows of a rollout of random frames in a real ReplayBuffer.

    The buffer keeps single frames and stacks four on reading, as for Atari; the batch is what an update takes from
    it, `sample(0)`: (rows, 4, 84, 84) uint8 observations, now and next. The longest rollout so far is kept, and a
    shorter one is its beginning, so that rows are the same whatever was asked for before.
    """
    if len(_longest[seed][0] if seed in _longest else ()) < rows:
        _longest.clear()
        _longest[seed] = _collect(rows, seed)
    batch, buffer, indices = _longest[seed]
    return batch[:rows], buffer, indices[:rows]


_longest = {}


def _collect(rows, seed):
    from tianshou.data import Batch, ReplayBuffer

    random = [np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(3)]
    frames = random[0].integers(0, 256, (rows, *FRAMES[1:]), dtype=np.uint8)
    actions = random[1].integers(0, ACTIONS, rows)
    rewards = random[2].standard_normal(rows)
    buffer = ReplayBuffer(rows, stack_num=FRAMES[0], ignore_obs_next=True)
    for row in range(rows):
        done = (row + 1) % EPISODE == 0
        step = {"obs": frames[row], "act": actions[row], "rew": rewards[row], "terminated": done, "truncated": False}
        buffer.add(Batch(**step, done=done, obs_next=frames[row], info={}))
    batch, indices = buffer.sample(0)
    return batch, buffer, indices


def visual_networks(network: str, seed: int = 0, device: str = "cpu", actor_dtype: str = "float32"):
    """The named network as actor and another as critic; the same weights under every release."""
    torch.manual_seed(seed)
    actor, critic = Actor(NETWORKS[network](ACTIONS)), Critic(NETWORKS[network](1))
    return actor.to(device, getattr(torch, actor_dtype)), critic.to(device)


@lru_cache(maxsize=1)  # others would take room on the card
def visual_ppo(network: str, max_batchsize: int, device: str = "cpu", actor_dtype: str = "float32"):
    """PPO around these networks."""
    return ppo(*visual_networks(network, device=device, actor_dtype=actor_dtype), max_batchsize=max_batchsize)
