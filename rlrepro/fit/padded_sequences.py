"""The minibatches of sb3-contrib's recurrent algorithms, whose sequences are padded to the longest of them."""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from rlrepro.fit.marks import note, reads


def is_recurrent(model) -> bool:
    """Whether its policy goes through sequences."""
    return hasattr(model.policy, "_process_sequence")


@contextmanager
def padded_sequences(model, most: int | None):
    """In this context, each minibatch has as many sequences as make it longest when it is padded, at most `most`, and
    the policy goes through them step by step, as it does where an episode begins within a minibatch.

    A sequence ends with its episode, and with the steps of its environment. Which ones share a minibatch depends on
    the episodes and on chance, so a plan takes the worst of them: one long sequence, and many of a single step.
    """
    if not is_recurrent(model):
        yield
        return
    from sb3_contrib.common.recurrent import buffers

    process, split = model.policy._process_sequence, buffers.create_sequencers

    def step_by_step(*args):
        with reads(False):  # "no episode begins here"
            return process(*args)

    def split_worst(episode_starts, env_change, device):
        starts = worst_starts(len(episode_starts), model.n_steps, most)
        begins = np.isin(np.arange(len(episode_starts)), starts)
        return split(begins, begins, device)

    rows = min(model.batch_size, model.n_steps * model.n_envs)
    count, longest = padded_size(rows, model.n_steps, most)
    worst = ", its worst case; if episodes are long, give the most sequences that it has, as sequences=4"
    note(f"a minibatch is padded: planned for {count:,} sequences of {longest:,} steps{worst if most is None else ''}")
    with (
        patch.object(model.policy, "_process_sequence", step_by_step),
        patch.object(buffers, "create_sequencers", split_worst),
    ):
        yield


def padded_size(rows: int, longest: int, most: int | None = None) -> tuple[int, int]:
    """The number of sequences, at most `most`, and their common length, that take the most when `rows` transitions are
    padded, if no sequence is longer than `longest`."""
    count = max(rows // 2 + 1, rows - longest + 1)
    if most is not None:
        count = min(count, max(most, -(-rows // longest)))
    return count, min(rows - count + 1, longest)


def worst_starts(rows: int, longest: int, most: int | None = None) -> np.ndarray:
    """Where the sequences of such a minibatch start: the first is the longest."""
    count, first = padded_size(rows, longest, most)
    others = max(count - 1, 1)
    return np.array([0, *(first + np.arange(count - 1) * (rows - first) // others)])
