"""Records that are damaged, or not as their case declares, are refused, named, and never judged."""

import json
import shutil
from pathlib import Path

import pytest

from .conftest import ROOT

DAMAGES = {
    "no key": (lambda record: record["setting"].pop("rows"), "peak is declared with the keys release, rows"),
    "another unit": (lambda record: record.update(unit="s"), "peak is declared in 'B'; found 's'"),
    "zero": (lambda record: record.update(value=0), "peak is in 'B' and can't be 0"),
    "below zero": (lambda record: record.update(value=-1), "-1 is below 0; values in 'B' can't be"),
}


@pytest.fixture
def reference(tmp_path):
    """A copy of the reference records of chapter 2."""
    return Path(shutil.copy(next(ROOT.glob("results/*/02_logp_old_oom.jsonl")), tmp_path))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_record_that_is_not_as_declared_is_refused_with_its_file_and_line(run_cli, reference, damage):
    change, message = DAMAGES[damage]
    records = [json.loads(line) for line in reference.read_text().splitlines()]
    line_numbers = [number for number, record in enumerate(records, start=1) if record["name"] == "logp_old.peak"]
    for number in line_numbers:
        change(records[number - 1])
    reference.write_text("\n".join(map(json.dumps, records)))
    completed = run_cli("verdicts", reference.parent, "--json")
    assert completed.returncode == 1 and "Traceback" not in completed.stderr
    assert all(
        f"{reference}, line {number}: {message}" in completed.stderr.replace("Value error, ", "")
        for number in line_numbers
    )
    (verdict,) = [row for row in json.loads(completed.stdout) if row["id"] == "LO1"]
    assert verdict["verdict"] == "not testable here" and "no record of logp_old.peak" in verdict["why"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda path: path.write_text("nonsense\n"), "line 1: Invalid JSON"),
        (lambda path: path.write_text(""), "is empty"),
        (lambda path: (path.unlink(), path.mkdir()), "is a folder, not a file"),
    ],
)
def test_a_file_without_a_readable_line_is_a_failure(run_cli, reference, damage, message):
    assert run_cli("verdicts", reference.parent).returncode == 0
    damage(reference)
    completed = run_cli("verdicts", reference.parent)
    assert completed.returncode == 1 and f"{reference}" in completed.stderr and message in completed.stderr
