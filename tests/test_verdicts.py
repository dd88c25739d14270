"""Verdicts follow the records: each changes when the effect it rests on is taken away."""

import json
import re

import pytest

from rlrepro.cases import all_claims
from rlrepro.cases.large_actions import COPIES, EMBEDDED
from rlrepro.cases.logp_old import BUGGY, FIXED, NEWEST
from rlrepro.evidence import Records, read_records
from rlrepro.evidence.verdicts import verdict_markdown, verdict_rows

from .conftest import ROOT

REFERENCE = sorted(ROOT.glob("results/*-cores-*"))[0]


@pytest.fixture(scope="module")
def records():
    return read_records(REFERENCE)


def judge(claim_id, records):
    (claim,) = (claim for claim in all_claims() if claim.id == claim_id)
    return claim.verdict(records).outcome


def changed(records, name, value, **setting):
    """The records with another value in those of that name and setting; `value` may be computed from the record."""
    chosen = records.where(name, **setting)
    assert chosen
    return Records(
        record.model_copy(update={"value": value(record) if callable(value) else value, "spread": (1.2, 1.4)})
        if record in chosen
        else record
        for record in records
    )


def as_if(records, release):
    """What the records would be had `release` been measured in the place of each release."""
    found = []
    for record in records:
        if record.setting.get("release") in (BUGGY, FIXED, NEWEST):
            others = {**record.setting, "release": release}
            twin = [each for each in records if each.name == record.name and each.setting == others]
            record = record.model_copy(update={"value": twin[0].value}) if twin else record
        found.append(record)
    return Records(found)


def chunk_asked_for(record):
    return record.setting["max_batchsize"]


def as_alone(record):
    return 0.006


STEP = "parallel_training.step"
FORWARD = "two_batch_sizes.largest_forward"
SAMPLE, MILLION = "slice_sampler.sample", 1_000_000
WITHOUT_THE_EFFECT = {
    "LO1": lambda records: as_if(records, FIXED),
    "LO2": lambda records: as_if(records, BUGGY),
    "LO3": lambda records: changed(records, "logp_old.peak_by_chunk", 1000, release=FIXED),
    "LO4": lambda records: changed(changed(records, "logp_old.difference", 0.0), "logp_old.training_difference", 0.0),
    "LO5": lambda records: changed(records, "logp_old.time_ratio", 1.3),
    "LO6": lambda records: changed(records, "logp_old.snippet_error", None),
    "LO7": lambda records: changed(
        changed(records, "logp_old.chunks", [256, 255]), "logp_old.first_ratio_error", 0.0, distribution="plain normal"
    ),
    "LO8": lambda records: changed(records, "logp_old.twin_peak", 1000, cured=False),
    "TB1": lambda records: changed(records, FORWARD, chunk_asked_for, network="critic", gradients=True),
    "TB2": lambda records: changed(records, FORWARD, 1000, network="actor", gradients=True),
    "TB3": lambda records: changed(records, "two_batch_sizes.fits", True, release=BUGGY),
    "TB4": lambda records: changed(records, "two_batch_sizes.fits", True, release=BUGGY),
    "TB5": lambda records: changed(records, "two_batch_sizes.largest_chunk", chunk_asked_for),
    "TB6": lambda records: changed(records, "two_batch_sizes.largest_batch", 4096),
    "SS1": lambda records: changed(records, SAMPLE, lambda record: 8 * record.value, capacity=600 * MILLION),
    "SS2": lambda records: changed(records, SAMPLE, 0.02, stored=346 * MILLION),
    "SS3": lambda records: changed(records, SAMPLE, 0.0048, capacity=6 * MILLION),
    "SS4": lambda records: changed(records, SAMPLE, lambda record: record.setting["capacity"] / 1e9),
    "SS5": lambda records: changed(records, SAMPLE, lambda record: 2 ** (record.setting["stored"] / 4e7)),
    "SS6": lambda records: changed(records, "slice_sampler.done_ratio", 1.0),
    "SS7": lambda records: changed(records, "slice_sampler.cache_ratio", 10.0),
    "SS8": lambda records: changed(records, "slice_sampler.release_ratio", 0.9),
    "SS9": lambda records: changed(records, "slice_sampler.online", 0.001),
    "SS10": lambda records: changed(records, "slice_sampler.moved_in", 10.0, dtype="int64"),
    "PT1": lambda records: changed(records, STEP, as_alone, threads="default"),
    "PT2": lambda records: changed(records, STEP, 10.0, way="pool", processes=8),
    "PT3": lambda records: changed(records, "parallel_training.span", 1.0, way="scripts"),
    "PT4": lambda records: changed(records, STEP, as_alone, threads="default", processes=2, way="pool"),
    "PT5": lambda records: changed(records, STEP, as_alone, threads="all"),
    "PT6": lambda records: changed(records, "parallel_training.of_ideal", 0.1),
    "PT7": lambda records: changed(records, "parallel_training.overhead", 3.0),
    "LA1": lambda records: changed(records, "large_actions.batch_peak", 1000.0),
    "LA2": lambda records: changed(records, "large_actions.torchrl_action", 8.0, encoding="one-hot"),
    "LA3": lambda records: changed(records, "large_actions.update_per_state", 1000.0),
    "LA4": lambda records: changed(records, "large_actions.stored", 3072.0, part="state"),
    "LA5": lambda records: changed(records, "large_actions.stored", 10 * MILLION, copies=COPIES),
    "LA6": lambda records: changed(records, "large_actions.update_per_state", 1000.0),
    "LA7": lambda records: changed(records, "large_actions.stored", 100.0, features=EMBEDDED),
    "LA8": lambda records: changed(records, "large_actions.since_start_peak", lambda r: r.setting["stored"]),
    "PE1": lambda records: changed(records, "spinning_parent.parent_cpu", 0.05),
    "PE2": lambda records: changed(records, "spinning_parent.ours_ratio", 1.2),
    "PE3": lambda records: changed(records, "spinning_parent.crowd_ratio", 1.0),
    "PE4": lambda records: changed(records, "spinning_parent.side_by_side_ratio", 1.0),
    "PE5": lambda records: changed(records, "spinning_parent.ours_ratio", 1.2),
    "PE6": lambda records: changed(records, "spinning_parent.steps_late", 0),
}
EXPECTED = {
    "LO1": ("supported", "refuted"),
    "LO2": ("supported", "refuted"),
    "LO3": ("supported", "refuted"),
    "LO4": ("partly", "supported"),
    "LO5": ("refuted", "supported"),
    "LO6": ("refuted", "supported"),
    "LO7": ("partly", "supported"),
    "LO8": ("refuted", "partly"),
    "TB1": ("supported", "refuted"),
    "TB2": ("supported", "refuted"),
    "TB3": ("supported", "refuted"),
    "TB4": ("supported", "refuted"),
    "TB5": ("partly", "supported"),
    "TB6": ("partly", "refuted"),
    "SS1": ("refuted", "supported"),
    "SS2": ("supported", "refuted"),
    "SS3": ("partly", "supported"),
    "SS4": ("refuted", "supported"),
    "SS5": ("refuted", "supported"),
    "SS6": ("supported", "refuted"),
    "SS7": ("supported", "partly"),
    "SS8": ("supported", "refuted"),
    "SS9": ("refuted", "supported"),
    "SS10": ("refuted", "supported"),
    "PT1": ("supported", "refuted"),
    "PT2": ("refuted", "supported"),
    "PT3": ("refuted", "supported"),
    "PT4": ("refuted", "supported"),
    "PT5": ("partly", "supported"),
    "PT6": ("partly", "refuted"),
    "PT7": ("refuted", "supported"),
    "LA1": ("partly", "refuted"),
    "LA2": ("partly", "refuted"),
    "LA3": ("refuted", "supported"),
    "LA4": ("supported", "refuted"),
    "LA5": ("refuted", "supported"),
    "LA6": ("refuted", "supported"),
    "LA7": ("refuted", "supported"),
    "LA8": ("partly", "supported"),
    "PE1": ("supported", "refuted"),
    "PE2": ("refuted", "supported"),
    "PE3": ("supported", "refuted"),
    "PE4": ("supported", "refuted"),
    "PE5": ("supported", "refuted"),
    "PE6": ("supported", "refuted"),
}


@pytest.mark.parametrize("claim_id", EXPECTED)
def test_a_verdict_changes_when_its_effect_is_taken_away(records, claim_id):
    with_effect, without = EXPECTED[claim_id]
    assert judge(claim_id, records) == with_effect
    assert judge(claim_id, WITHOUT_THE_EFFECT[claim_id](records)) == without


def test_frameworks_are_judged_where_ray_was_not_measured(records):
    without = Records(record for record in records if record.setting.get("way") != "ray")
    assert judge("PT5", without) == "partly"
    assert judge("PT5", WITHOUT_THE_EFFECT["PT5"](without)) == "supported"


def test_a_difference_beyond_rounding_refutes(records):
    assert judge("LO4", changed(records, "logp_old.difference", 0.1)) == "refuted"


def test_a_size_that_bounds_nothing_is_no_bound(records):
    assert judge("TB1", changed(records, FORWARD, 1000, network="critic", gradients=False)) == "refuted"
    unbounded = changed(records, FORWARD, lambda record: 10 * record.setting["batch_size"], gradients=True)
    assert judge("TB2", unbounded) == "refuted"


def test_a_grid_without_a_cell_that_fits_says_nothing(records):
    assert judge("TB3", changed(records, "two_batch_sizes.fits", False)) == "not testable here"


def test_eight_rows_for_every_network_would_support(records):
    assert judge("TB6", changed(records, "two_batch_sizes.largest_batch", 8)) == "supported"


def test_the_small_buffer_on_a_gpu_would_explain_the_article(records):
    found = records.where(SAMPLE, release="0.6.0", sampler="episode", stored=5 * MILLION, capacity=6 * MILLION)[0]
    there = found.model_copy(update={"value": found.value / 8, "setting": {**found.setting, "storage": "cuda"}})
    assert judge("SS1", Records([*records, there])) == "partly"


def test_every_claim_is_tested_here():
    elsewhere = ("NS", "RL")  # test_nan_scan.py, test_value_pass_verdicts.py
    assert {claim.id for claim in all_claims() if not claim.id.startswith(elsewhere)} == set(EXPECTED)


def test_no_judge_fails_for_want_of_a_record(records):
    """Whatever is missing, a claim gets a verdict."""
    claims = all_claims()
    for name in {record.name for record in records}:
        case = name.split(".")[0]
        own = Records(record for record in records if record.name.startswith(f"{case}."))
        there = [record for record in own if record.name == name]
        for missing in (there, there[:1], there[-1:], there[::2], there[1::2]):
            left = Records(record for record in own if record not in missing)
            for claim in claims:
                if case in claim.judge.__module__:
                    claim.verdict(left)


@pytest.mark.parametrize("late", [0.5, 1, 2])
def test_noise_makes_no_exponential(records, late):
    """In proportion, with the largest size disturbed by a factor of two."""
    largest = max(record.setting["stored"] for record in records.where(SAMPLE))
    noisy = changed(records, SAMPLE, lambda r: r.setting["stored"] * (late if r.setting["stored"] == largest else 1))
    assert judge("SS5", noisy) == "refuted"
    two = Records(record for record in records if record.setting.get("stored") in (1_000_000, largest))
    assert judge("SS5", two) == "not testable here"


def test_one_size_is_no_growth(records):
    one = Records(record for record in records if record.setting.get("rows") in (1024, None))
    assert judge("LO1", one) == "not testable here"


def test_a_time_without_samples_is_said_to_be_one_measurement(records):
    """Records of earlier versions have none."""
    for claim in all_claims():
        figure = claim.verdict(Records(r.model_copy(update={"samples": None}) for r in records)).figure
        timed = claim.id in ("LO5", "NS2", "NS3", "NS7", "RL9") or claim.id[:2] in ("SS", "PT", "PE")
        assert ("(one measurement)" in figure) == (timed and claim.id != "PE6"), claim.id


@pytest.mark.parametrize(
    "samples, outcome, firm", [((1.2, 1.3, 1.4), "supported", True), ((0.8, 1.3, 1.4), "supported", False)]
)
def test_a_verdict_whose_threshold_lies_inside_the_interval_is_not_firm(records, samples, outcome, firm):
    (claim,) = (claim for claim in all_claims() if claim.id == "LO5")
    (ratio,) = records.where("logp_old.time_ratio")
    verdict = claim.verdict(Records([ratio.model_copy(update={"value": 1.3, "samples": samples})]))
    assert (verdict.outcome, verdict.firm) == (outcome, firm)
    assert f"{samples[0]} to 1.4" in verdict.figure and ("noise may decide" in verdict.why) != firm


def test_a_premise_that_may_be_noise_makes_no_firm_verdict(records):
    (slow,) = records.where(STEP, way="pool", net="large", processes=8, threads="default", waits="default")
    middle = slow.value / 8  # still slowed down, but not by far
    noisy = slow.model_copy(update={"value": middle, "samples": (middle / 10, middle, 10 * middle)})
    others = [record.model_copy(update={"samples": (record.value,) * 3}) for record in records if record != slow]
    (claim,) = (claim for claim in all_claims() if claim.id == "PT3")
    assert claim.verdict(Records([*others, slow.model_copy(update={"samples": (slow.value,) * 3})])).firm
    verdict = claim.verdict(Records([*others, noisy]))
    assert not verdict.firm and "the slowdown may be noise" in verdict.why


def test_the_batch_size_parameter_sets_the_memory_with_the_fix_only(records):
    follows = changed(records, "logp_old.peak_by_chunk", lambda record: 1000 * record.setting["max_batchsize"])
    assert judge("LO3", follows) == "partly"


def test_each_claim_has_a_rule_and_the_sentence_of_its_article(records):
    for claim in (claim for claim in all_claims() if claim.article):
        assert claim.rule and claim.rule.says in claim.verdict(records).why, claim.id
        assert re.search("[\u4e00-\u9fff]", claim.quote) and "address is not known" in str(claim.article), claim.id


def test_each_machine_and_device_is_judged_by_its_own_records(records):
    other = changed(records, "logp_old.snippet_error", None)
    there = [record.model_copy(update={"device": "cuda"}) for record in other]
    rows = [row for row in verdict_rows(Records([*records, *there]), all_claims()) if row["id"] == "LO6"]
    assert [row["verdict"] for row in rows] == ["refuted", "supported"] and rows[1]["machine"].endswith("(cuda)")


def test_without_records_nothing_is_claimed():
    rows = verdict_rows(Records(), all_claims())
    assert {row["verdict"] for row in rows} == {"not testable here"} and len(rows) == len(all_claims())
    assert all("no record of" in row["why"] and row["chapter"] in row["why"] for row in rows)


def test_the_table_has_a_row_for_each_claim(records):
    text = verdict_markdown(verdict_rows(records, all_claims()))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(all_claims()) and all(line.count(" | ") == 4 for line in lines[2:])
    assert text.count("Claims of the article") == len({str(claim.article) for claim in all_claims() if claim.article})
    assert all(claim.quote in text for claim in all_claims())


def test_verdicts_are_printed_for_people_and_programs(run_cli):
    table = run_cli("verdicts", REFERENCE)
    assert table.returncode == 0 and "LO8" in table.stdout
    rows = json.loads(run_cli("verdicts", REFERENCE, "--json").stdout)
    assert {"id", "verdict", "figure", "machine"} <= set(rows[0]) and len(rows) >= len(all_claims())


@pytest.mark.parametrize("dtype, rounding", [("float32", 1e-6), ("tf32", 1e-3), ("bfloat16", 1e-2)])
def test_rounding_is_what_the_precision_explains(records, dtype, rounding):
    """A difference that bfloat16 explains is none of float32's."""
    (first, *_) = records.where("logp_old.difference")
    others = [record for record in records if record.name != "logp_old.difference"]
    for factor, outcome in ((1, "partly"), (20, "refuted")):
        changes = {"value": rounding * factor, "setting": {**first.setting, "dtype": dtype}}
        assert judge("LO4", Records([*others, first.model_copy(update=changes)])) == outcome
