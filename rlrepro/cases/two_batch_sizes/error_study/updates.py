"""Random updates of random networks. Each can be planned, and run with the same sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
import torch
from gymnasium import spaces

from rlrepro.cases.two_batch_sizes.error_study import library_runs, own_updates
from rlrepro.cases.two_batch_sizes.error_study.networks import KINDS, random_body, random_shape
from rlrepro.fit import Plan, plan, plan_update

LIBRARIES = ("tianshou-ppo", "tianshou-a2c", "sb3-ppo")
OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop)


@dataclass(frozen=True)
class RandomUpdate:
    """A numbered update: `plan()` plans it, and `run()` returns (bytes of live tensors, allocated bytes) by stage."""

    number: int
    algorithm: str
    network: str
    dtype: str
    plan: Callable[[], Plan]
    run: Callable[[], dict[str, tuple[int, int]]]


def random_update(number: int) -> RandomUpdate:
    """The update with that number, the same at each call."""
    rng = Random(number)
    kind, algorithm = rng.choice(KINDS), rng.choice((*LIBRARIES, *own_updates.STEPS, *own_updates.STEPS))
    shape, seed = random_shape(rng, kind), rng.random()
    names = random_body(Random(seed), kind, shape)[2]
    shared, discrete = rng.random() < 0.25, rng.random() < 0.6

    def bodies(count: int):
        """`count` new bodies, or one that is shared, each with its width."""
        torch.manual_seed(number)
        body_rng = Random(seed)
        distinct = [random_body(body_rng, kind, shape) for _ in range(1 if shared else count)]
        return [distinct[min(index, len(distinct) - 1)][:2] for index in range(count)]

    if algorithm in LIBRARIES:
        dtype = rng.choice(("float32", "float32", "float64")) if algorithm != "sb3-ppo" else "float32"
        make_plan, run = _library_update(rng, algorithm, bodies, shape, discrete, getattr(torch, dtype))
    else:
        dtype = rng.choice(("float32", "float32", "float64", "bfloat16", "autocast"))
        make_plan, run = _own_update(rng, algorithm, bodies, shape, dtype)
    if shared and algorithm != "dqn":
        names.append("shared trunk")
    return RandomUpdate(number, algorithm, ", ".join(names), dtype, make_plan, run)


def observation_space(shape: tuple[int, ...]) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8) if len(shape) == 3 else spaces.Box(-1, 1, shape, np.float32)


def _library_update(rng, library, bodies, shape, discrete, dtype):
    obs_space = observation_space(shape)
    act_space = (
        spaces.Discrete(rng.randint(2, 18)) if discrete else spaces.Box(-1, 1, (rng.randint(1, 12),), np.float32)
    )
    rollout = rng.randint(16, 120 if len(shape) == 3 else 300)
    batch_size = rng.randint(4, rollout)
    while rollout % batch_size == 1:  # BatchNorm rejects a minibatch of one
        batch_size += 1
    optimizer = rng.choice(OPTIMIZERS)
    sizes = {"rollout": rollout, "batch_size": batch_size}
    if library == "sb3-ppo":

        def model():
            return library_runs.sb3_model(bodies(1)[0], obs_space, act_space, optimizer, **sizes)

        return (
            lambda: plan(model().policy, library=library, device="cpu", **sizes),
            lambda: library_runs.run_sb3(model),
        )
    sizes["max_batchsize"] = rng.randint(4, 300)

    def networks():
        (actor_body, width), (critic_body, critic_width) = bodies(2)
        actor = library_runs.Actor(actor_body, width, act_space)
        return actor.to(dtype), library_runs.Critic(critic_body, critic_width).to(dtype)

    return (
        lambda: plan(*networks(), obs_space, act_space, library=library, optimizer=optimizer, device="cpu", **sizes),
        lambda: library_runs.run_tianshou(library, networks, obs_space, act_space, optimizer, **sizes),
    )


def _own_update(rng, name, bodies, shape, dtype):
    options = own_updates.Options(
        shape=shape,
        actions=rng.randint(1, 18),
        dtype=dtype,
        optimizer=rng.choice(OPTIMIZERS),
        parts=rng.choice((1, 1, 2)),
        clip=rng.random() < 0.5,
    )
    make, step = own_updates.STEPS[name](bodies, options)
    batch_size = options.parts * rng.randint(2, 48 if len(shape) == 3 else 160)
    return (
        lambda: plan_update(make, step, batch_size=batch_size, device="cpu"),
        lambda: own_updates.run(make, lambda state: step(state, batch_size)),
    )
