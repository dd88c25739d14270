"""Verdicts follow the records: each changes when its effect is removed."""

import pytest

from rlrepro.cases import all_claims
from rlrepro.cases.large_actions import COPIES, EMBEDDED
from rlrepro.cases.logp_old import BUGGY, FIXED
from rlrepro.evidence import Records

from .effects import as_if, change, changed, judge


def requested_chunk(record):
    return record.setting["max_batchsize"]


STEP, ALONE = "parallel_training.step", 0.006  # seconds
BUFFER_BYTES = "parallel_training.buffer_bytes"
FORWARD = "two_batch_sizes.largest_forward"
SAMPLE, MILLION = "slice_sampler.sample", 1_000_000
EXPECTED = {  # with the effect, without it, and the change that removes it
    "LO1": ("supported", "refuted", as_if(FIXED)),
    "LO2": ("supported", "refuted", as_if(BUGGY)),
    "LO3": ("supported", "refuted", change("logp_old.peak_by_chunk", 1000, release=FIXED)),
    "LO4": (
        "partly",
        "supported",
        lambda records: changed(changed(records, "logp_old.difference", 0.0), "logp_old.training_difference", 0.0),
    ),
    "LO5": ("refuted", "supported", change("logp_old.time_ratio", 1.3)),
    "LO6": ("refuted", "supported", change("logp_old.snippet_error", None)),
    "LO7": (
        "partly",
        "supported",
        lambda records: changed(
            changed(records, "logp_old.chunks", [256, 255]),
            "logp_old.first_ratio_error",
            0.0,
            distribution="plain normal",
        ),
    ),
    "LO8": ("refuted", "partly", change("logp_old.twin_peak", 1000, fixed=False)),
    "TB1": ("supported", "refuted", change(FORWARD, requested_chunk, network="critic", gradients=True)),
    "TB2": ("supported", "refuted", change(FORWARD, 1000, network="actor", gradients=True)),
    "TB3": ("supported", "refuted", change("two_batch_sizes.fits", True, release=BUGGY)),
    "TB4": ("supported", "refuted", change("two_batch_sizes.fits", True, release=BUGGY)),
    "TB5": ("partly", "supported", change("two_batch_sizes.largest_chunk", requested_chunk)),
    "TB6": ("partly", "refuted", change("two_batch_sizes.largest_batch", 4096)),
    "SS1": ("refuted", "supported", change(SAMPLE, lambda record: 8 * record.value, capacity=600 * MILLION)),
    "SS2": ("supported", "refuted", change(SAMPLE, 0.02, stored=346 * MILLION)),
    "SS3": ("partly", "supported", change(SAMPLE, 0.0048, capacity=6 * MILLION)),
    "SS4": ("refuted", "supported", change(SAMPLE, lambda record: record.setting["capacity"] / 1e9)),
    "SS5": ("refuted", "supported", change(SAMPLE, lambda record: 2 ** (record.setting["stored"] / 4e7))),
    "SS6": ("supported", "refuted", change("slice_sampler.done_ratio", 1.0)),
    "SS7": ("supported", "partly", change("slice_sampler.cache_ratio", 10.0)),
    "SS8": ("supported", "refuted", change("slice_sampler.release_ratio", 0.9)),
    "SS9": ("refuted", "supported", change("slice_sampler.online", 0.001)),
    "SS10": ("refuted", "supported", change("slice_sampler.moved_in", 10.0, dtype="int64")),
    "PT1": ("supported", "refuted", change(STEP, ALONE, threads="default")),
    "PT2": ("refuted", "supported", change(STEP, 10.0, way="pool", processes=8)),
    "PT3": ("refuted", "supported", change("parallel_training.span", 1.0, way="scripts")),
    "PT4": ("refuted", "supported", change(STEP, ALONE, threads="default", processes=2, way="pool")),
    "PT5": ("partly", "supported", change(STEP, ALONE, threads="all")),
    "PT6": ("partly", "refuted", change("parallel_training.of_ideal", 0.1)),
    "PT7": ("refuted", "supported", change("parallel_training.overhead", 3.0)),
    "PT8": ("supported", "refuted", change(BUFFER_BYTES, 1000, way="released")),
    "PT9": ("refuted", "supported", change("parallel_training.buffers", lambda record: record.setting["run"])),
    "PT10": ("supported", "refuted", change(BUFFER_BYTES, 10**9, way="collected")),
    "LA1": ("partly", "refuted", change("large_actions.batch_peak", 1000.0)),
    "LA2": ("partly", "refuted", change("large_actions.torchrl_action", 8.0, encoding="one-hot")),
    "LA3": ("refuted", "supported", change("large_actions.update_per_state", 1000.0)),
    "LA4": ("supported", "refuted", change("large_actions.stored", 3072.0, part="state")),
    "LA5": ("refuted", "supported", change("large_actions.stored", 10 * MILLION, copies=COPIES)),
    "LA6": ("refuted", "supported", change("large_actions.update_per_state", 1000.0)),
    "LA7": ("refuted", "supported", change("large_actions.stored", 100.0, features=EMBEDDED)),
    "LA8": ("partly", "supported", change("large_actions.since_start_peak", lambda r: r.setting["stored"])),
    "PE1": ("supported", "refuted", change("parallel_env.parent_cpu", 0.05)),
    "PE2": ("refuted", "supported", change("parallel_env.ours_ratio", 1.2)),
    "PE3": ("supported", "refuted", change("parallel_env.crowd_ratio", 1.0)),
    "PE4": ("supported", "refuted", change("parallel_env.side_by_side_ratio", 1.0)),
    "PE5": ("supported", "refuted", change("parallel_env.ours_ratio", 1.2)),
    "PE6": ("supported", "refuted", change("parallel_env.steps_late", 0)),
}


@pytest.mark.parametrize("claim_id", EXPECTED)
def test_a_verdict_changes_when_its_effect_is_removed(records, claim_id):
    with_effect, without, remove_effect = EXPECTED[claim_id]
    assert judge(claim_id, records) == with_effect
    assert judge(claim_id, remove_effect(records)) == without


def test_frameworks_are_judged_where_ray_was_not_measured(records):
    without = Records(record for record in records if record.setting.get("way") != "ray")
    assert judge("PT5", without) == "partly"
    assert judge("PT5", EXPECTED["PT5"][2](without)) == "supported"


def test_a_difference_beyond_rounding_refutes(records):
    assert judge("LO4", changed(records, "logp_old.difference", 0.1)) == "refuted"


def test_a_size_without_effect_is_not_a_bound(records):
    assert judge("TB1", changed(records, FORWARD, 1000, network="critic", gradients=False)) == "refuted"
    unbounded = changed(records, FORWARD, lambda record: 10 * record.setting["batch_size"], gradients=True)
    assert judge("TB2", unbounded) == "refuted"


def test_a_grid_without_a_cell_that_fits_is_not_judged(records):
    assert judge("TB3", changed(records, "two_batch_sizes.fits", False)) == "not testable here"


def test_eight_rows_for_every_network_would_support(records):
    assert judge("TB6", changed(records, "two_batch_sizes.largest_batch", 8)) == "supported"


def test_the_small_buffer_on_a_gpu_would_explain_the_article(records):
    record = records.where(SAMPLE, release="0.6.0", sampler="episode", stored=5 * MILLION, capacity=6 * MILLION)[0]
    on_cuda = record.model_copy(update={"value": record.value / 8, "setting": {**record.setting, "storage": "cuda"}})
    assert judge("SS1", Records([*records, on_cuda])) == "partly"


def test_every_claim_is_tested_here():
    elsewhere = ("NS", "RL")  # test_nan_scan.py, test_value_pass_verdicts.py
    assert {claim.id for claim in all_claims() if not claim.id.startswith(elsewhere)} == set(EXPECTED)


@pytest.mark.slow
def test_no_judge_fails_because_a_record_is_missing(records):
    """A claim gets a verdict no matter which records are missing."""
    claims = all_claims()
    for name in {record.name for record in records}:
        case = name.split(".")[0]
        case_records = Records(record for record in records if record.name.startswith(f"{case}."))
        matching = [record for record in case_records if record.name == name]
        for missing in (matching, matching[:1], matching[-1:], matching[::2], matching[1::2]):
            excluded = set(map(id, missing))
            remaining = Records(record for record in case_records if id(record) not in excluded)
            for claim in claims:
                if case in claim.judge.__module__:
                    claim.verdict(remaining)


@pytest.mark.parametrize("factor", [0.5, 1, 2])
def test_noise_does_not_look_exponential(records, factor):
    """In proportion, with the largest size disturbed by a factor of two."""
    largest = max(record.setting["stored"] for record in records.where(SAMPLE))
    noisy = changed(records, SAMPLE, lambda r: r.setting["stored"] * (factor if r.setting["stored"] == largest else 1))
    assert judge("SS5", noisy) == "refuted"
    two_sizes = Records(record for record in records if record.setting.get("stored") in (1_000_000, largest))
    assert judge("SS5", two_sizes) == "not testable here"


def test_one_size_is_not_enough_for_growth(records):
    one_size = Records(record for record in records if record.setting.get("rows") in (1024, None))
    assert judge("LO1", one_size) == "not testable here"


def test_the_batch_size_parameter_sets_the_memory_with_the_fix_only(records):
    proportional = changed(records, "logp_old.peak_by_chunk", lambda record: 1000 * record.setting["max_batchsize"])
    assert judge("LO3", proportional) == "partly"


@pytest.mark.parametrize("dtype, rounding", [("float32", 1e-6), ("tf32", 1e-3), ("bfloat16", 1e-2)])
def test_rounding_is_judged_by_its_precision(records, dtype, rounding):
    """Rounding in bfloat16 explains a larger difference than rounding in float32."""
    (first, *_) = records.where("logp_old.difference")
    others = [record for record in records if record.name != "logp_old.difference"]
    for factor, outcome in ((1, "partly"), (20, "refuted")):
        changes = {"value": rounding * factor, "setting": {**first.setting, "dtype": dtype}}
        assert judge("LO4", Records([*others, first.model_copy(update=changes)])) == outcome
