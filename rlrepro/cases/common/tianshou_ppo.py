"""PPO on visual rollouts, built for whichever tianshou is imported: 0.5, 1.x or 2.x.

These functions run in the process of a release, so tianshou is imported where it is used. `rows` are transitions of a
rollout.
"""

from functools import lru_cache

import numpy as np
import torch
from gymnasium import spaces
from torch.distributions import Categorical

from rlrepro.cases.common.networks import FRAMES, NETWORKS, Actor, Critic

# Numba takes seconds in each process to compile tianshou's functions, which run in milliseconds here when interpreted.
INTERPRETED = {"NUMBA_DISABLE_JIT": "1"}
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
    """The release's PPO with these networks: a PPOPolicy before tianshou 2.0, a PPO algorithm from 2.0 on.

    `cls` is a subclass to construct instead; `options` go to its constructor. With `optimizer=None`, a PPOPolicy has no
    optimizer, which is enough to preprocess (a PPO algorithm gets Adam).
    """
    action_space = action_space or spaces.Discrete(ACTIONS)
    if is_version_2():
        from tianshou.algorithm import PPO
        from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
        from tianshou.algorithm.optim import TorchOptimizerFactory

        policy = ProbabilisticActorPolicy(actor=actor, dist_fn=dist_fn, action_space=action_space, action_scaling=False)
        optim = TorchOptimizerFactory(optimizer or torch.optim.Adam, lr=lr)
        return (cls or PPO)(policy=policy, critic=critic, optim=optim, max_batchsize=max_batchsize, **options)
    from tianshou.policy import PPOPolicy

    return (cls or PPOPolicy)(
        actor=actor,
        critic=critic,
        optim=optimizer and optimizer([*actor.parameters(), *critic.parameters()], lr=lr),
        dist_fn=dist_fn,
        action_space=action_space,
        action_scaling=False,
        max_batchsize=max_batchsize,
        **options,
    )


def preprocess(algorithm, batch, buffer, indices):
    """The release's own step between collecting and learning: returns, advantages and logp_old.

    Returns a shallow copy of the batch with these keys; the batch itself is not changed.
    """
    from tianshou.data import Batch

    step = algorithm._preprocess_batch if is_version_2() else algorithm.process_fn
    return step(Batch(batch), buffer, indices)


def policy_of(algorithm):
    """The module that maps a batch to a distribution: in tianshou 2.x the algorithm's policy, before 2.0 the policy
    itself."""
    return algorithm.policy if is_version_2() else algorithm


def visual_rollout(rows: int):
    """(batch, buffer, indices) of the first `rows` transitions of a rollout of random frames in a real ReplayBuffer.

    The buffer stores single frames and stacks four when it is read, as for Atari. The batch is what an update samples,
    `buffer.sample(0)`: `obs` and `obs_next` are uint8 of shape (rows, 4, 84, 84). The longest rollout so far is cached,
    and a shorter one is a prefix of it, so transitions do not depend on earlier calls.
    """
    if not _longest or len(_longest[0]) < rows:
        _longest.clear()
        _longest.extend(_collect(rows))
    batch, buffer, indices = _longest
    return batch[:rows], buffer, indices[:rows]


_longest = []


def _collect(rows):
    from tianshou.data import Batch, ReplayBuffer

    rngs = [np.random.default_rng(seed) for seed in np.random.SeedSequence(0).spawn(3)]
    frames = rngs[0].integers(0, 256, (rows, *FRAMES[1:]), dtype=np.uint8)
    actions = rngs[1].integers(0, ACTIONS, rows)
    rewards = rngs[2].standard_normal(rows)
    buffer = ReplayBuffer(rows, stack_num=FRAMES[0], ignore_obs_next=True)
    for row in range(rows):
        done = (row + 1) % EPISODE == 0
        fields = {"obs": frames[row], "act": actions[row], "rew": rewards[row], "terminated": done, "truncated": False}
        buffer.add(Batch(**fields, done=done, obs_next=frames[row], info={}))
    batch, indices = buffer.sample(0)
    return batch, buffer, indices


def visual_networks(network: str, device: str = "cpu", actor_dtype: str = "float32"):
    """(actor, critic) with that architecture, and with the same weights under every release."""
    torch.manual_seed(0)
    actor, critic = Actor(NETWORKS[network](ACTIONS)), Critic(NETWORKS[network](1))
    return actor.to(device, getattr(torch, actor_dtype)), critic.to(device)


@lru_cache(maxsize=1)  # more than one would take up memory on the GPU
def visual_ppo(network: str, max_batchsize: int, device: str = "cpu", actor_dtype: str = "float32"):
    """PPO with these networks, for preprocessing only. It has no optimizer, since torch imports its compiler to
    construct one, which takes seconds."""
    networks = visual_networks(network, device=device, actor_dtype=actor_dtype)
    return ppo(*networks, max_batchsize=max_batchsize, optimizer=None)
