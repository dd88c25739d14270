"""Exercises of chapter 2: logp_old."""

import torch
from torch.distributions import Categorical, Independent, Normal

from rlrepro.cases.logp_old import BUGGY, FIXED
from rlrepro.course.exercises.core import Hint, exercise, how_far, near


@exercise("2.1")
def factor(my_factor, records):
    """A function of (rows, max_batchsize): the peak of 1.0.0 divided by that of 1.1.0."""
    settings = [record.setting for record in records.all("logp_old.peak_by_chunk", release=FIXED)]
    for setting in settings:
        arguments = {"rows": setting["rows"], "max_batchsize": setting["max_batchsize"]}
        peaks = [
            records.get("logp_old.peak_by_chunk", release=release, **arguments).value for release in (BUGGY, FIXED)
        ]
        expected, actual = peaks[0] / peaks[1], my_factor(*arguments.values())
        if not near(actual, expected, 0.1):
            raise Hint(
                f"With {arguments} your {actual:.3g} is {how_far(actual, expected)}. How large is the largest chunk?"
            )
    for rows, size in ((500, 64), (100, 96), (20, 64)):
        expected, actual = rows / (rows if rows < size else size + rows % size), my_factor(rows, size)
        if not near(actual, expected, 0.1):
            raise Hint(
                f"{rows} transitions in chunks of {size}: your {actual:.3g} is {how_far(actual, expected)}. Where does "
                "the remainder go, and what if the rollout is shorter than one chunk?"
            )


@exercise("2.2")
def longest_rollout(my_rows, records):
    """A function of (records, gib): the longest rollout that 1.0.0 can take, from its measured peaks alone."""
    measured = records.get("logp_old.largest_rollout", release=BUGGY)
    peaks_only = type(records)(record for record in records if record.name == "logp_old.peak")
    half = type(records)(record.model_copy(update={"value": record.value // 2}) for record in peaks_only)
    actual, doubled = my_rows(peaks_only, measured.setting["gib"]), my_rows(half, measured.setting["gib"])
    if not near(actual, measured.value, 0.1):
        raise Hint(
            f"{actual:,.0f} transitions on {measured.setting['gib']} GiB is {how_far(actual, measured.value)} "
            "(by over 10%). What does one more transition cost, by the two longest rollouts of 1.0.0?"
        )
    if not near(doubled, 2 * actual, 0.1):
        raise Hint("With records in which each peak is half as high, your function does not return twice the length.")


@exercise("2.3")
def one_log_probability(my_logp, records):
    """A function of (dist, actions): log-probabilities of shape (rows,) for any distribution."""
    loc = torch.zeros(5, 3)
    cases = {
        "Categorical": (Categorical(logits=torch.randn(5, 4)), torch.tensor([0, 1, 2, 3, 0])),
        "Independent(Normal)": (Independent(Normal(loc, 1.0), 1), torch.randn(5, 3)),
        "Normal over 3 dimensions": (Normal(loc, 1.0), torch.randn(5, 3)),
        "Normal over 1 dimension": (Normal(loc[:, :1], 1.0), torch.randn(5, 1)),
    }
    for name, (dist, actions) in cases.items():
        actual, plain = my_logp(dist, actions), dist.log_prob(actions)
        if actual.shape != (5,):
            raise Hint(f"{name}: expected one number for each of 5 transitions, found shape {tuple(actual.shape)}.")
        if not torch.allclose(actual, plain.reshape(5, -1).sum(1)):
            raise Hint(
                f"{name}: the numbers are wrong. The actions of one transition are independent: how do you combine "
                "their log-probabilities?"
            )


@exercise("2.4")
def evaluate_in_chunks(my_evaluate, records):
    """A function of (fn, rows, size): fn of all rows, where fn never gets more than `size` at a time."""
    for count, size in ((10, 4), (8, 4), (3, 4), (7, 6)):
        chunk_sizes = []

        def fn(rows, chunk_sizes=chunk_sizes):
            chunk_sizes.append(len(rows))
            return rows.square().sum(1)

        rows = torch.arange(2.0 * count).reshape(count, 2)
        actual = my_evaluate(fn, rows, size)
        if max(chunk_sizes, default=0) > size:
            raise Hint(
                f"{count} rows in chunks of {size}: fn was given {chunk_sizes} rows. That is upstream's merge_last."
            )
        if len(chunk_sizes) != -(-count // size):
            raise Hint(f"{count} rows in chunks of {size}: {len(chunk_sizes)} is the wrong number of calls.")
        if not torch.equal(actual, rows.square().sum(1)):
            raise Hint("The result differs from that of all rows at once, in their order.")
