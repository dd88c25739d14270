"""Random updates of random networks. Each can be planned, and run with the same sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from random import Random

import numpy as np
import torch
from gymnasium import spaces

from rlrepro.cases.two_batch_sizes.error_study import library_runs, own_updates
from rlrepro.cases.two_batch_sizes.error_study.networks import KINDS, random_body, random_shape
from rlrepro.fit import Plan, plan, plan_update

LIBRARIES = ("tianshou-ppo", "tianshou-a2c", "sb3-ppo")
ROWS = {"cpu": 1, "cuda": 32}  # factor of all sizes: on a GPU, the workspaces of libraries exceed small updates
OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop)


@dataclass(frozen=True)
class RandomUpdate:
    """A numbered update: `plan()` plans it, and `run()` returns (bytes of live tensors, allocated bytes) by stage; on a
    GPU, (allocated bytes, reserved bytes)."""

    number: int
    algorithm: str
    network: str
    dtype: str
    device: str
    plan: Callable[[], Plan]
    run: Callable[[], dict[str, tuple[int, int]]]


def random_update(number: int, device: str = "cpu") -> RandomUpdate:
    """The update with that number, the same at each call, on "cpu" or "cuda"."""
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
        make_plan, run = _library_update(rng, algorithm, bodies, shape, discrete, getattr(torch, dtype), device)
    else:
        dtype = rng.choice(("float32", "float32", "float64", "bfloat16", "autocast"))
        make_plan, run = _own_update(rng, algorithm, bodies, shape, dtype, device)
    if shared and algorithm != "dqn":
        names.append("shared trunk")
    return RandomUpdate(number, algorithm, ", ".join(names), dtype, device, make_plan, run)


def observation_space(shape: tuple[int, ...]) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8) if len(shape) == 3 else spaces.Box(-1, 1, shape, np.float32)


def _library_update(rng, library, bodies, shape, discrete, dtype, device):
    obs_space = observation_space(shape)
    act_space = (
        spaces.Discrete(rng.randint(2, 18)) if discrete else spaces.Box(-1, 1, (rng.randint(1, 12),), np.float32)
    )
    rollout = rng.randint(16, 120 if len(shape) == 3 else 300)
    batch_size = rng.randint(4, rollout)
    while rollout % batch_size == 1:  # BatchNorm rejects a minibatch of one
        batch_size += 1
    optimizer = rng.choice(OPTIMIZERS)
    sizes = {"rollout": rollout * ROWS[device], "batch_size": batch_size * ROWS[device]}
    if library == "sb3-ppo":

        def model(device="cpu"):
            return library_runs.sb3_model(bodies(1)[0], obs_space, act_space, optimizer, **sizes, device=device)

        return (
            lambda: plan(model().policy, library=library, device=device, **sizes),
            lambda: library_runs.run_sb3(lambda: model(device), device),
        )
    sizes["max_batchsize"] = rng.randint(4, 300) * ROWS[device]

    def networks():
        (actor_body, width), (critic_body, critic_width) = bodies(2)
        actor = library_runs.Actor(actor_body, width, act_space)
        return actor.to(dtype), library_runs.Critic(critic_body, critic_width).to(dtype)

    return (
        lambda: plan(*networks(), obs_space, act_space, library=library, optimizer=optimizer, device=device, **sizes),
        lambda: library_runs.run_tianshou(library, networks, obs_space, act_space, optimizer, **sizes, device=device),
    )


def _own_update(rng, name, bodies, shape, dtype, device):
    options = own_updates.Options(
        shape=shape,
        actions=rng.randint(1, 18),
        dtype=dtype,
        optimizer=rng.choice(OPTIMIZERS),
        parts=rng.choice((1, 1, 2)),
        clip=rng.random() < 0.5,
        device=device,
    )
    make, step = (_on(device, function) for function in own_updates.STEPS[name](bodies, options))
    batch_size = options.parts * rng.randint(2, 48 if len(shape) == 3 else 160) * ROWS[device]
    return (
        lambda: plan_update(make, step, batch_size=batch_size, device=device),
        lambda: own_updates.run(make, lambda state: step(state, batch_size), device),
    )


def _on(device: str, function: Callable) -> Callable:
    """The function with new tensors on that device."""

    @wraps(function)
    def on_device(*args, **kwargs):
        with torch.device(device):
            return function(*args, **kwargs)

    return on_device
