"""The verdicts on RLlib's value pass follow the records: each changes when its effect is removed."""

import pytest

from rlrepro.cases.value_pass import CLAIMS, RECORDS, WAYS
from rlrepro.evidence import RecordBook, Records

from .effects import change, changed, judge

GRAPH, ACTIVATIONS, ROWS, MINIBATCH = 400_000, 200_000, 64, 8  # bytes per timestep; not measured
PEAK, UPDATE = "value_pass.peak", "value_pass.update_peak"


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Records like the chapter's, of a value pass with the proportions of a convolutional network."""
    path = tmp_path_factory.mktemp("records") / "10.jsonl"
    book = RecordBook(path, case="value_pass", profile="tiny", device="cpu", seed=0, quantities=RECORDS)
    peaks = {"released": GRAPH * ROWS, "no_grad": ACTIVATIONS * ROWS, "chunked": ACTIVATIONS * MINIBATCH}
    for way, peak in peaks.items():
        for times, modules in ((1, 1), (2, 1), (4, 1), (1, 2)):
            setting = {
                "way": way,
                "rows": times * ROWS,
                "minibatch": MINIBATCH,
                "network": "nature",
                "modules": modules,
            }
            book.add("peak", peak if way == "chunked" else peak * times * modules, **setting)
            book.add("held", 0, **setting)
            book.add("largest_call", MINIBATCH if way == "chunked" else times * ROWS + 1, **setting)
            book.add("with_gradients", way == "released", **setting)
    sizes = {"rows": ROWS, "minibatch": MINIBATCH}
    for way in WAYS:
        for stage in ("values computed", "advantages computed", "connector returned"):
            live = peaks[way] if way == "released" and stage != "connector returned" else 0
            book.add("live", live, way=way, stage=stage, **sizes)
        book.add("share_held", 0.1, way=way, **sizes)
        for size in (8, 32):
            peak = GRAPH * ROWS if way == "released" else GRAPH * size
            book.add("update_peak", peak, way=way, rows=ROWS, minibatch=size, network="nature")
    for way, peak in (("old stack", 100), ("released", 500), ("chunked", 110)):
        book.add("update_peak", peak, way=way, network="recurrent", **sizes)
    for size, difference in ((None, 0.0), (8, 1e-6)):
        book.add("difference", difference, way="chunked", rows=ROWS, size=size, what="advantages")
    book.add("training_difference", 1e-7, minibatch=MINIBATCH, updates=1, moved=1e-4)
    book.add("time_ratio", 0.9, spread=(0.8, 0.95), network="nature", **sizes)
    return book.records


EXPECTED = {  # with the effect, without it, and the change that removes it
    "RL1": ("supported", "refuted", change(PEAK, 1000, way="released")),
    "RL2": ("partly", "refuted", change("value_pass.with_gradients", False)),
    "RL3": ("supported", "refuted", change(UPDATE, 100, network="recurrent")),
    "RL4": ("supported", "refuted", change(UPDATE, 490, network="recurrent", way="chunked")),
    "RL5": ("partly", "supported", change(UPDATE, lambda r: r.setting["minibatch"])),
    "RL6": ("refuted", "supported", change("value_pass.held", GRAPH * ROWS)),
    "RL7": ("supported", "refuted", change(PEAK, 1000, way="released")),
    "RL8": ("partly", "refuted", change("value_pass.difference", 0.1)),
    "RL9": ("refuted", "supported", change("value_pass.time_ratio", 1.3)),
}


@pytest.mark.parametrize("claim_id", EXPECTED)
def test_a_verdict_changes_when_its_effect_is_removed(records, claim_id):
    with_effect, without, remove_effect = EXPECTED[claim_id]
    assert judge(claim_id, records) == with_effect
    assert judge(claim_id, remove_effect(records)) == without


def test_every_claim_is_tested_here():
    assert [claim.id for claim in CLAIMS] == list(EXPECTED)


def test_causes_are_not_judged_without_an_effect(records):
    assert judge("RL2", changed(records, PEAK, 1000)) == "not testable here"
    assert judge("RL4", changed(records, UPDATE, 100, network="recurrent")) == "not testable here"


def test_other_outcomes(records):
    assert judge("RL2", changed(records, PEAK, ACTIVATIONS * MINIBATCH, way="no_grad")) == "supported"
    assert judge("RL4", changed(records, UPDATE, 200, network="recurrent", way="chunked")) == "partly"
    exact = changed(changed(records, "value_pass.difference", 0.0), "value_pass.training_difference", 0.0)
    assert judge("RL8", exact) == "supported"
    rounded_up = changed(records, "value_pass.held", 976)  # what a GPU's allocator adds to the results
    assert judge("RL6", rounded_up) == "refuted"


@pytest.mark.parametrize("name", [quantity.name for quantity in RECORDS])
def test_no_judge_fails_because_a_record_is_missing(records, name):
    remaining = Records(record for record in records if record.name != f"value_pass.{name}")
    assert all(claim.verdict(remaining).outcome for claim in CLAIMS)
