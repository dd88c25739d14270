"""`rlrepro stability` finds the verdicts that change from run to run."""

import os

import pytest

from rlrepro.cases import all_claims
from rlrepro.evidence import read_records
from rlrepro.evidence.stability import compare_runs, summary

from .conftest import REFERENCE


@pytest.fixture
def runs(tmp_path):
    """Four runs in which 1.1.0 takes more and more time: LO5 changes from the second to the third."""
    folders = []
    for index, samples in enumerate([(0.5,) * 5, (0.9, 0.9, 0.95, 1.2, 1.2), (0.9, 1.1, 1.2, 1.3, 1.3), (1.5,) * 5]):
        records = [
            record.model_copy(update={"value": samples[2], "samples": samples})
            if record.name == "logp_old.time_ratio"
            else record
            for record in read_records(REFERENCE / "02_logp_old_oom.jsonl")
        ]
        folders.append(tmp_path / str(index))
        folders[-1].mkdir()
        (folders[-1] / "records.jsonl").write_text("".join(record.model_dump_json() + "\n" for record in records))
    return folders


def changes(folders):
    compared = compare_runs(folders, all_claims())
    assert {stability.claim.chapter for stability in compared} == {"02_logp_old_oom"}  # nothing else was measured
    traits = ("changes", "firm_changes", "firmness_changes")
    return {
        stability.claim.id: [t for t in traits if getattr(stability, t)]
        for stability in compared
        if any(getattr(stability, t) for t in traits)
    }


def test_changes_between_runs(runs):
    assert changes([runs[0], runs[0]]) == {}
    assert changes(runs[:2]) == {"LO5": ["firmness_changes"]}
    assert changes(runs[1:3]) == {"LO5": ["changes"]}
    assert changes(runs) == {"LO5": ["changes", "firm_changes", "firmness_changes"]}
    assert summary(compare_runs(runs, all_claims())).startswith("Of 8 claims, 1 change their verdict, 1 of them from")


@pytest.mark.slow
def test_the_command_fails_if_firm_verdicts_differ(runs, run_cli):
    options = {"env": os.environ | {"COLUMNS": "200"}}  # so that no cell is folded
    different = run_cli("stability", *runs, **options)
    assert different.returncode == 1 and different.stdout.count("LO5") == 4 and "1.5 (1.5 to 1.5)" in different.stdout
    equal = run_cli("stability", *runs[1:3], **options)
    assert equal.returncode == 0 and "refuted, not firm" in equal.stdout and "LO4" not in equal.stdout


def test_it_needs_two_runs_that_exist(runs, run_cli):
    assert "two or more" in run_cli("stability", runs[0]).stderr
    assert "does not exist" in run_cli("stability", runs[0], "elsewhere").stderr


def test_a_chapter_that_one_run_lacks_is_no_other_verdict(runs, tmp_path, run_cli):
    less = tmp_path / "less[b]"  # rich would take it for markup
    less.mkdir()
    lines = (runs[0] / "records.jsonl").read_text().splitlines(keepends=True)
    (less / "records.jsonl").write_text("".join(line for line in lines if "logp_old.time_ratio" not in line))
    assert changes([runs[0], less]) == {"LO5": ["changes"]}
    assert "less[b]" in run_cli("stability", runs[0], less, env=os.environ | {"COLUMNS": "200"}).stdout
