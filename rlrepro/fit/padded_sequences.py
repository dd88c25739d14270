"""The minibatches of sb3-contrib's recurrent algorithms, whose sequences are padded to the longest of them."""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from rlrepro.fit.marks import note, reads


def is_recurrent(model) -> bool:
    """Whether the policy of the model processes sequences."""
    return hasattr(model.policy, "_process_sequence")


@contextmanager
def padded_sequences(model, max_sequences: int | None):
    """In this context, each minibatch has the number of sequences, at most `max_sequences`, that makes it largest when
    it is padded. The policy processes them step by step, as it does if an episode begins within a minibatch.

    A sequence ends with its episode, or with the steps of its environment. Which sequences share a minibatch depends on
    the episodes and on chance, so a plan assumes the worst case: one long sequence, and many of a single step.
    """
    if not is_recurrent(model):
        yield
        return
    from sb3_contrib.common.recurrent import buffers

    process_sequence, create_sequencers = model.policy._process_sequence, buffers.create_sequencers

    def step_by_step(*args):
        with reads(False):  # "no episode begins here"
            return process_sequence(*args)

    def split_worst(episode_starts, env_change, device):
        starts = worst_starts(len(episode_starts), model.n_steps, max_sequences)
        is_start = np.isin(np.arange(len(episode_starts)), starts)
        return create_sequencers(is_start, is_start, device)

    rows = min(model.batch_size, model.n_steps * model.n_envs)
    count, longest = padded_size(rows, model.n_steps, max_sequences)
    worst_case = ", its worst case; if episodes are long, pass the maximum number of sequences, for example sequences=4"
    note(
        f"a minibatch is padded: planned for {count:,} sequences of {longest:,} steps"
        f"{worst_case if max_sequences is None else ''}"
    )
    with (
        patch.object(model.policy, "_process_sequence", step_by_step),
        patch.object(buffers, "create_sequencers", split_worst),
    ):
        yield


def padded_size(rows: int, longest: int, max_sequences: int | None = None) -> tuple[int, int]:
    """The number of sequences, at most `max_sequences`, and their padded length in the worst case for `rows`
    transitions, if no sequence is longer than `longest`."""
    count = max(rows // 2 + 1, rows - longest + 1)
    if max_sequences is not None:
        count = min(count, max(max_sequences, -(-rows // longest)))
    return count, min(rows - count + 1, longest)


def worst_starts(rows: int, longest: int, max_sequences: int | None = None) -> np.ndarray:
    """Where the sequences of such a minibatch start: the first is the longest."""
    count, first_length = padded_size(rows, longest, max_sequences)
    short_count = max(count - 1, 1)
    return np.array([0, *(first_length + np.arange(count - 1) * (rows - first_length) // short_count)])
