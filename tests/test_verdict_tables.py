"""The presentation of verdicts: whether they are firm, rule and sentence, a table for people and one for programs."""

import json

import pytest

from rlrepro.cases import all_claims
from rlrepro.evidence import Records
from rlrepro.evidence.claims import Article
from rlrepro.evidence.verdicts import verdict_markdown, verdict_rows

from .conftest import REFERENCE
from .effects import changed


@pytest.mark.slow
def test_a_time_without_samples_is_marked_as_one_measurement(records):
    """Records of earlier versions have none. PE2 compares several records; PE6 and PT8 to PT10 count."""
    for claim in all_claims():
        figure = claim.verdict(Records(r.model_copy(update={"samples": None}) for r in records)).figure
        timed = claim.id in ("LO5", "NS2", "NS3", "NS7", "RL9") or claim.id[:2] in ("SS", "PT", "PE")
        assert ("(one measurement)" in figure) == (timed and claim.id not in ("PE2", "PE6", "PT8", "PT9", "PT10")), (
            f"{claim.id}: `timed` above names the claims that rest on times"
        )


@pytest.mark.parametrize(
    "samples, outcome, firm", [((1.2, 1.3, 1.4), "supported", True), ((0.8, 1.3, 1.4), "supported", False)]
)
def test_a_verdict_whose_threshold_lies_inside_the_interval_is_not_firm(records, samples, outcome, firm):
    (claim,) = (claim for claim in all_claims() if claim.id == "LO5")
    (ratio,) = records.where("logp_old.time_ratio")
    verdict = claim.verdict(Records([ratio.model_copy(update={"value": 1.3, "samples": samples})]))
    assert (verdict.outcome, verdict.firm) == (outcome, firm)
    assert f"{samples[0]} to 1.4" in verdict.figure and ("noise may have decided" in verdict.why) != firm


def test_a_premise_that_may_be_noise_makes_the_verdict_not_firm(records):
    setting = {"way": "pool", "net": "large", "processes": 8, "threads": "default", "waits": "default"}
    (slowest,) = records.where("parallel_training.step", **setting)
    middle = slowest.value / 8  # still slowed down, but not by far
    noisy = slowest.model_copy(update={"value": middle, "samples": (middle / 10, middle, 10 * middle)})
    others = [record.model_copy(update={"samples": (record.value,) * 3}) for record in records if record != slowest]
    (claim,) = (claim for claim in all_claims() if claim.id == "PT3")
    assert claim.verdict(Records([*others, slowest.model_copy(update={"samples": (slowest.value,) * 3})])).firm
    verdict = claim.verdict(Records([*others, noisy]))
    assert not verdict.firm and "the slowdown may be noise" in verdict.why


def test_each_claim_has_a_rule_and_the_sentence_of_its_article(records):
    for claim in (claim for claim in all_claims() if claim.article):
        assert claim.rule and claim.rule.says in claim.verdict(records).why, claim.id
        assert claim.quote and claim.article.address in str(claim.article), claim.id


def test_an_article_in_english_has_one_title_and_an_address():
    article = Article("Buffers", "Buffers", "library 1.0", "2024", address="https://example.org/buffers")
    assert str(article) == "“Buffers” (2024; https://example.org/buffers), about library 1.0"


def test_each_machine_and_device_is_judged_by_its_own_records(records):
    changed_records = changed(records, "logp_old.snippet_error", None)
    on_cuda = [record.model_copy(update={"device": "cuda"}) for record in changed_records]
    rows = [row for row in verdict_rows(Records([*records, *on_cuda]), all_claims()) if row["id"] == "LO6"]
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
