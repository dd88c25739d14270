"""Lab of chapter 3: `my_sampler(**options)`, a sampler of torchrl to use in place of SliceSampler."""

import os

import numpy as np

from rlrepro.cases.slice_sampler import NEWEST, buffers, workloads
from rlrepro.cases.slice_sampler.measure import ENVIRONMENT
from rlrepro.course.labs.core import Trial, WrongResult
from rlrepro.lab import Release

STORED, WRITES = 5_000_000, 7  # transitions; of WRITE_SIZE transitions each, with a sample after each
SMALL, WRAPS = 2_750, 5  # capacity of the ring whose samples are checked; writes, which wrap around
WITHIN = 10  # times ours: looking at every episode takes half of it, reading every transition twice as much
STILL = "What of its work repeats for transitions that were there before the last write?"


def trial(answer) -> Trial:
    with Release(f"torchrl=={NEWEST}", environment=ENVIRONMENT | os.environ) as newest:
        if wrong := newest.run(wrong_slices, answer):
            raise WrongResult(wrong)
        costs = newest.run(online, answer)
    return Trial(costs, "s", f"finding the slices of a sample after a write, {STORED:,} stored", WITHIN)


def online(answer) -> dict[str, list[float]]:
    """Seconds in the online loop, alternately, except for torchrl's cache, which all samplers of a storage share."""
    names = {"released": "episode", "yours": answer, "ours": "ours"}
    seconds = workloads.online(STORED, 2 * STORED, list(names.values()), WRITES)
    buffers.drop()
    upstream = workloads.online(STORED, 2 * STORED, ["episode cached"], WRITES)
    buffers.drop()
    return {variant: seconds[name] for variant, name in names.items()} | {"upstream": upstream["episode cached"]}


def wrong_slices(answer) -> str | None:
    """What is wrong with samples while writes go round a small ring, or None."""
    filled = buffers.buffer(buffers.EPISODE_LEN * 4, SMALL)
    storage, sampler, first = filled._storage, buffers.sampler(answer), len(filled)
    step = np.full(SMALL, -1)  # the step that each place holds
    step[:first] = np.arange(first)
    for _ in range(WRAPS):
        slices = sampler.sample(storage, buffers.BATCH_SIZE)[0][0].reshape(-1, buffers.SLICE_LEN).numpy()
        steps, prefix = step[slices], f"After {first:,} transitions written to a ring of {SMALL:,}"
        torn = (np.diff(steps) != 1).any(axis=1) | (np.diff(steps // buffers.EPISODE_LEN) != 0).any(axis=1)
        if torn.any():
            return (
                f"{prefix}, a slice has the steps {steps[torn][0].tolist()}; episodes have {buffers.EPISODE_LEN} steps."
            )
        episodes, counts = np.unique(step[step >= 0] // buffers.EPISODE_LEN, return_counts=True)
        expected = set(episodes[counts >= buffers.SLICE_LEN].tolist())
        if missing := expected - set((steps // buffers.EPISODE_LEN).ravel().tolist()):
            return f"{prefix}, nothing was drawn from episode {min(missing)}."
        index = filled.extend(buffers.transitions(first, workloads.WRITE_SIZE))
        sampler.extend(index)  # as its buffer does after a write
        step[np.asarray(index)] = np.arange(first, first + workloads.WRITE_SIZE)
        first += workloads.WRITE_SIZE
    buffers.drop()
    return None
