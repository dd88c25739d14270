"""Exercises of chapter 1: two batch sizes."""

from functools import partial

import numpy as np
import torch
from gymnasium import spaces

from rlrepro.cases.common.networks import Actor, Critic, ResidualCNN
from rlrepro.course.exercises.core import Hint, exercise, how_far, near
from rlrepro.fit import plan

CAMERA, CHOICE = spaces.Box(0, 255, (3, 240, 320), np.uint8), spaces.Discrete(6)
STAGES = ("returns", "logp_old", "learn")
FAILED = {  # what somebody sees, by what would help there
    "1.1.0 fails in returns": "max_batchsize",
    "1.1.0 fails in learn": "batch_size",
    "1.0.0 fails in logp_old": "neither",
}


def _planned(rollout: int, **options):
    with torch.device("meta"):
        network = partial(ResidualCNN, frames=CAMERA.shape)
        return plan(Actor(network(6)), Critic(network(1)), CAMERA, CHOICE, rollout=rollout, **options)


@exercise("1.1")
def what_helps(my_answers, records):
    """For each of three failures the parameter that helps, or neither."""
    if missing := FAILED.keys() - my_answers.keys():
        raise Hint(f"There is no answer yet for: {', '.join(sorted(missing))}.")
    if wrong := [name for name in FAILED if my_answers[name] != FAILED[name]]:
        raise Hint(f"Look again at *Count the forwards* for: {'; '.join(wrong)}.")


@exercise("1.2")
def largest_chunk(my_largest, records):
    """A function: rows of the largest chunk that tianshou cuts a rollout into."""
    from tianshou.data import Batch

    for rows, size in ((100, 32), (96, 32), (63, 32), (64, 32), (20, 32), (95, 32), (100, 64), (7, 3)):
        expected = max(len(chunk.a) for chunk in Batch(a=np.arange(rows)).split(size, shuffle=False, merge_last=True))
        if (found := my_largest(rows, size)) != expected:
            raise Hint(
                f"{rows} rows and a size of {size}: tianshou's largest chunk is not {found}. Where does the remainder "
                "go, and what if there is less than one chunk?"
            )


@exercise("1.3")
def a_larger_camera(my_batch_size, records):
    """The largest power of two that fits as batch_size on 24 GiB, at 240×320 and a rollout of 16,384 rows."""
    planned, my_batch_size = _planned(16_384, device_memory_gib=24), int(my_batch_size)
    if my_batch_size < 1 or my_batch_size & (my_batch_size - 1):
        raise Hint("A power of two is asked for.")
    if not planned.at(batch_size=my_batch_size).fits():
        raise Hint(f"{planned.at(batch_size=my_batch_size).failing_stage()} does not fit on 24 GiB with that size.")
    if planned.at(batch_size=2 * my_batch_size).fits():
        raise Hint("It fits, and so does twice as much.")


@exercise("1.4")
def without_adam(my_bytes, records):
    """Bytes that torch.optim.SGD saves in every stage, against Adam, for the network of 1.3."""
    adam, sgd = _planned(64), _planned(64, optimizer=torch.optim.SGD)
    saved = {adam.stages[stage] - sgd.stages[stage] for stage in adam.stages}
    expected = max(saved)
    if not near(my_bytes, expected, 0.02):
        raise Hint(
            f"{my_bytes:,} bytes are {how_far(my_bytes, expected)}. What does Adam keep that plain gradient "
            "descent does not, and for which networks?"
        )
