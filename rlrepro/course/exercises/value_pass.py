"""Exercises of chapter 10: RLlib's value pass."""

import torch

from rlrepro.course.exercises.core import Hint, exercise, how_far, near
from rlrepro.evidence.records import Records


@exercise("10.1")
def largest_train_batch(my_rows, records):
    """A function of (records, gib): the train batch whose value pass fills a GPU, by the measured peaks."""
    measured = records.series("value_pass.peak", "rows", way="released", modules=1)
    (smaller_rows, smaller_peak), (rows, peak) = list(measured.items())[-2:]
    halved = Records(
        record.model_copy(update={"value": record.value // 2}) for record in records.where("value_pass.peak")
    )
    for peaks, scale in ((records, 1), (halved, 2)):
        for gib in (1, 8):
            expected = rows + (scale * gib * 2**30 - peak) * (rows - smaller_rows) / (peak - smaller_peak)
            actual = my_rows(peaks, gib)
            if not near(actual, expected, 0.1):
                raise Hint(
                    f"{actual:,.0f} timesteps on {gib} GiB is {how_far(actual, expected)}. What does one more "
                    "timestep cost, by the two largest train batches?"
                )


@exercise("10.2")
def values_in_chunks(my_values, records):
    """A function of (compute_values, batch, size): values of all rows, without gradients, in chunks."""
    for count, size in ((10, 4), (8, 4), (3, 4)):
        weight, calls = torch.ones(2, requires_grad=True), []

        def compute_values(batch, weight=weight, calls=calls):
            rows = {len(batch["rewards"]), len(batch["state_in"]["h"]), len(batch["obs"]["image"])}
            if len(rows) > 1:
                raise Hint(f"The columns of one chunk have {sorted(rows)} rows. Split those inside dicts as well.")
            calls.append(*rows)
            return batch["obs"]["image"] @ weight + batch["state_in"]["h"]

        images = torch.arange(2.0 * count).reshape(count, 2)
        batch = {"rewards": images[:, 0], "obs": {"image": images}, "state_in": {"h": images[:, 1]}}
        values = my_values(compute_values, batch, size)
        if max(calls, default=0) > size:
            raise Hint(f"{count} rows in chunks of {size}: compute_values was given {calls} rows.")
        if len(values) != count or not torch.equal(values.detach(), images.sum(1) + images[:, 1]):
            raise Hint("The values differ from those of all rows at once, in their order.")
        if values.requires_grad:
            raise Hint("The values carry a graph, so every chunk's activations are still in memory.")


@exercise("10.3")
def two_policies(my_units, records):
    """(as released, with the fix), in graphs of one timestep."""
    released, fixed = my_units
    if not near(released, 2 * 4096, 0.01):
        raise Hint(f"As released, {released:g} is {how_far(released, 2 * 4096)}. When is the first graph dropped?")
    if not near(fixed, 32, 0.01):
        raise Hint(f"With the fix, {fixed:g} is {how_far(fixed, 32)}. What is still there when the next chunk begins?")
