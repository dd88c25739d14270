"""`rlrepro stability`: which verdicts change from run to run."""

import os

import pytest

from rlrepro.cases import all_claims
from rlrepro.evidence import read_records
from rlrepro.evidence.stability import compare_runs, summary

from .conftest import ROOT

REFERENCE = sorted(ROOT.glob("results/*-cores-*"))[0]


@pytest.fixture
def runs(tmp_path):
    """Four runs in which 1.1.0 takes more and more time: LO5 changes from the second to the third."""
    folders = []
    for number, samples in enumerate([(0.5,) * 5, (0.9, 0.9, 0.95, 1.2, 1.2), (0.9, 1.1, 1.2, 1.3, 1.3), (1.5,) * 5]):
        lines = [
            record.model_copy(update={"value": samples[2], "samples": samples})
            if record.name == "logp_old.time_ratio"
            else record
            for record in read_records(REFERENCE / "02_logp_old_oom.jsonl")
        ]
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        (folders[-1] / "records.jsonl").write_text("".join(record.model_dump_json() + "\n" for record in lines))
    return folders


def changes(folders):
    compared = compare_runs(folders, all_claims())
    assert {each.claim.chapter for each in compared} == {"02_logp_old_oom"}  # nothing else was measured
    traits = ("changes", "firm_changes", "firmness_changes")
    return {
        each.claim.id: [t for t in traits if getattr(each, t)]
        for each in compared
        if any(getattr(each, t) for t in traits)
    }


def test_what_changes_between_runs(runs):
    assert changes([runs[0], runs[0]]) == {}
    assert changes(runs[:2]) == {"LO5": ["firmness_changes"]}
    assert changes(runs[1:3]) == {"LO5": ["changes"]}
    assert changes(runs) == {"LO5": ["changes", "firm_changes", "firmness_changes"]}
    assert summary(compare_runs(runs, all_claims())).startswith("Of 8 claims, 1 change their verdict, 1 of them from")


@pytest.mark.slow
def test_the_command_fails_if_firm_verdicts_differ(runs, run_cli):
    wide = {"env": os.environ | {"COLUMNS": "200"}}  # so that no cell is folded
    unlike = run_cli("stability", *runs, **wide)
    assert unlike.returncode == 1 and unlike.stdout.count("LO5") == 4 and "1.5 (1.5 to 1.5)" in unlike.stdout
    alike = run_cli("stability", *runs[1:3], **wide)
    assert alike.returncode == 0 and "refuted, not firm" in alike.stdout and "LO4" not in alike.stdout


def test_it_needs_two_runs_that_exist(runs, run_cli):
    assert "two or more" in run_cli("stability", runs[0]).stderr
    assert "does not exist" in run_cli("stability", runs[0], "elsewhere").stderr
