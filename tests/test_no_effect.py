"""Verdicts on records without an effect: where nothing is slow or large, no claim about a cause or a fix is judged.

`no_effect.csv` has the expected outcome of each claim, by the change to the reference records, and the reason.
"""

import csv
from functools import cache, partial
from statistics import median

import pytest

from rlrepro.cases import all_claims
from rlrepro.evidence import Records, read_records

from .conftest import REFERENCE, ROOT

TABLE = {row["claim"]: row for row in csv.DictReader((ROOT / "tests" / "no_effect.csv").open())}
NEUTRAL_AT_0 = ("parallel_training.overhead", "nan_scan.share")


def is_timed(record):
    """Work that a run did not do took 0 s, and has no reciprocal."""
    return (record.unit == "s" and bool(record.value)) or (
        record.unit == "ratio" and not record.name.startswith("large_actions.")
    )


def with_value(record, value):
    return record.model_copy(update={"value": value, "spread": (value, value), "samples": (value,) * 3})


def flat(records, predicate, level):
    """The records with all values of a quantity equal; a ratio is 1."""
    values = {}
    for record in filter(predicate, records):
        values.setdefault(record.name, []).append(record.value)

    def flattened(record):
        if record.unit == "ratio":
            return 0.0 if record.name in NEUTRAL_AT_0 else 1.0
        return level(values[record.name])

    return Records(with_value(record, flattened(record)) if predicate(record) else record for record in records)


def reversed_effects(records, predicate):
    """The records with the slowest value swapped with the fastest, the largest with the smallest, and so on."""
    values = {}
    for record in filter(predicate, records):
        values.setdefault(record.name, []).append(record.value)

    def mirrored(record):
        if record.name == "nan_scan.share":
            return 1 - record.value
        if record.unit == "ratio":
            return 1 / record.value
        return max(values[record.name]) * min(values[record.name]) / record.value

    return Records(with_value(record, mirrored(record)) if predicate(record) else record for record in records)


def is_bytes(record):
    return record.unit == "B" and bool(record.value)


def card(records, fits):
    """The same records, with a card on which every update fits, or none does."""
    return Records(with_value(r, fits) if r.name == "two_batch_sizes.fits" else r for r in records)


def same_times(records):
    return flat(records, is_timed, median)


def all_small(records):
    return card(flat(records, is_bytes, min), True)


def all_large(records):
    return card(flat(records, is_bytes, max), False)


CHANGES = {
    "as measured": lambda records: records,
    "same times": same_times,
    "all small": all_small,
    "all large": all_large,
    "same times, all small": lambda records: same_times(all_small(records)),
    "times reversed": partial(reversed_effects, predicate=is_timed),
    "bytes reversed": partial(reversed_effects, predicate=is_bytes),
}


@cache
def changed(change):
    return CHANGES[change](read_records(REFERENCE))


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.id)
def test_the_outcome_without_an_effect_is_the_one_written_down(claim):
    outcomes = {change: claim.verdict(changed(change)).outcome for change in CHANGES}
    row = f"{','.join([claim.id, *outcomes.values()])},BECAUSE"
    assert claim.id in TABLE, f"add a row to tests/no_effect.csv, if these are the outcomes that you expect: {row}"
    assert outcomes == {change: TABLE[claim.id][change] for change in CHANGES}
