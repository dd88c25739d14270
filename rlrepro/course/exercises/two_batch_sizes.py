"""Exercises of chapter 1: two batch sizes."""

from functools import cache, partial

import numpy as np
import torch
from gymnasium import spaces

from rlrepro.cases.common.networks import Actor, Critic, ResidualCNN
from rlrepro.course.exercises.core import Hint, exercise, how_far, near
from rlrepro.fit import plan

CAMERA, CHOICE = spaces.Box(0, 255, (3, 240, 320), np.uint8), spaces.Discrete(6)
STAGES = ("returns", "logp_old", "learn")
SIZE_TO_LOWER = {
    "1.1.0 fails in returns": "max_batchsize",
    "1.1.0 fails in learn": "batch_size",
    "1.0.0 fails in logp_old": "neither",
}


@cache
def _planned(rollout: int, **options):
    network = partial(ResidualCNN, frames=CAMERA.shape)
    with torch.device("meta"):
        actor, critic = Actor(network(6)), Critic(network(1))
    return plan(actor, critic, CAMERA, CHOICE, rollout=rollout, **options)


@exercise("1.1")
def what_helps(my_answers, records):
    """For each of three failures, the parameter to lower, or "neither"."""
    if missing := SIZE_TO_LOWER.keys() - my_answers.keys():
        raise Hint(f"There is no answer yet for: {', '.join(sorted(missing))}.")
    if wrong := [name for name in SIZE_TO_LOWER if my_answers[name] != SIZE_TO_LOWER[name]]:
        raise Hint(f"Read *Count the forward passes* again for: {'; '.join(wrong)}.")


@exercise("1.2")
def largest_chunk(my_largest, records):
    """A function: the size of the largest chunk into which tianshou splits a rollout."""
    from tianshou.data import Batch

    for rollout, size in ((100, 32), (96, 32), (63, 32), (64, 32), (20, 32), (95, 32), (100, 64), (7, 3)):
        expected = max(
            len(chunk.a) for chunk in Batch(a=np.arange(rollout)).split(size, shuffle=False, merge_last=True)
        )
        if (actual := my_largest(rollout, size)) != expected:
            raise Hint(
                f"For a rollout of {rollout} and a size of {size}, tianshou's largest chunk is not {actual}. Where "
                "does the remainder go, and what if the rollout is shorter than a chunk?"
            )


@exercise("1.3")
def a_larger_camera(my_batch_size, records):
    """The largest power of two that fits as batch_size on 24 GiB, at 240×320 and a rollout of 16,384."""
    planned, my_batch_size = _planned(16_384, device_memory_gib=24), int(my_batch_size)
    if my_batch_size < 1 or my_batch_size & (my_batch_size - 1):
        raise Hint("The answer must be a power of two.")
    if not planned.at(batch_size=my_batch_size).fits():
        raise Hint(f"With that size, {planned.at(batch_size=my_batch_size).failing_stage()} does not fit on 24 GiB.")
    if planned.at(batch_size=2 * my_batch_size).fits():
        raise Hint("It fits, and so does twice that size.")


@exercise("1.4")
def without_adam(my_bytes, records):
    """Bytes that torch.optim.SGD saves in every stage compared with Adam, for the networks of 1.3."""
    adam, sgd = _planned(64), _planned(64, optimizer=torch.optim.SGD)
    saved = {adam.stages[stage] - sgd.stages[stage] for stage in adam.stages}
    expected = max(saved)
    if not near(my_bytes, expected, 0.02):
        raise Hint(
            f"{my_bytes:,} bytes is {how_far(my_bytes, expected)}. What does Adam keep that plain gradient "
            "descent does not, and for which networks?"
        )
