"""Runs on several machines: records judge each run separately, and disagreements are reported."""

import re
from collections import Counter

import pytest
from matplotlib.colors import to_hex

from rlrepro.cases import all_claims
from rlrepro.evidence import Records, read_records
from rlrepro.evidence.compare_runs import (
    OUTCOME_STYLE,
    differences,
    disagreements_markdown,
    judgements_markdown,
    machines_markdown,
    plot_verdicts,
)
from rlrepro.evidence.verdicts import MachineRun, judge, load_runs

from .conftest import REFERENCE


def write(folder, records):
    folder.mkdir(parents=True)
    (folder / "records.jsonl").write_text("".join(record.model_dump_json() + "\n" for record in records))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run like the reference machine's; the reference; and a run on a GPU in which LO6's snippet works, without
    chapter 3."""
    folder = tmp_path_factory.mktemp("machines")
    records = read_records(REFERENCE)
    write(folder / "run", records)
    write(folder / "results" / "a-reference", records)
    machine = records[0].machine.model_copy(update={"name": "other", "cores": 16, "gpu": "a card"})
    changed = [
        record.model_copy(
            update={"machine": machine, "device": "cuda"}
            | ({"value": None} if record.name == "logp_old.snippet_error" else {})
        )
        for record in records
        if not record.name.startswith("slice_sampler.")
    ]
    write(folder / "results" / "other", changed)
    return folder / "run", folder / "results"


@pytest.fixture(scope="module")
def runs(folders):
    return load_runs(*folders)


@pytest.fixture(scope="module")
def judgements(runs):
    return judge(all_claims(), runs)


def test_the_run_comes_first_then_each_machine(runs):
    assert [run.label for run in runs] == ["this run", "a-reference", "other"]
    assert runs[2].traits["cores"] == "16" and runs[2].traits["device"] == "cuda"
    table = machines_markdown(runs).splitlines()
    assert table[0].count("|") == 5 and any("a card" in line for line in table)


def test_a_folder_may_have_any_name(folders, tmp_path):
    records = read_records(folders[0])
    for name in ("this run", "a|b"):
        write(tmp_path / "results" / name, records)
    runs = load_runs(folders[0], tmp_path / "results")
    assert [run.label for run in runs] == ["this run", "a|b", "results/this run"]
    assert all(len(judgement.verdicts) == 3 for judgement in judge(all_claims(), runs))
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in machines_markdown(runs).splitlines())


def test_devices_in_one_folder_are_judged_separately(tmp_path):
    records = read_records(REFERENCE)
    twins = [record.model_copy(update={"device": "cuda"}) for record in records]
    write(tmp_path / "run", [*records, *twins])
    labels = [run.label for run in load_runs(tmp_path / "run", tmp_path / "none")]
    assert len(labels) == 2 and labels[0].endswith("cpu") and labels[1].endswith("cuda")


def test_without_a_run_the_machines_are_loaded_and_without_both_the_error_says_what_to_do(folders, tmp_path):
    assert [run.label for run in load_runs(tmp_path / "none", folders[1])] == ["a-reference", "other"]
    with pytest.raises(FileNotFoundError, match="rlrepro reproduce"):
        load_runs(tmp_path / "none", tmp_path / "none")


def test_a_disagreement_is_reported_with_a_possible_reason(judgements, runs):
    assert [judgement.claim.id for judgement in judgements if not judgement.agreed] == ["LO6"]
    text = disagreements_markdown(judgements, runs)
    assert "**LO6**" in text and "other: supported" in text and "this run: refuted" in text
    assert "cores 2 / 16" in text and "GPU none / a card" in text and "device cpu / cuda" in text
    compared = sum(len(judgement.tested) > 1 for judgement in judgements)
    assert f"Of {len(all_claims())} claims, {compared} were tested by more than one run" in text
    assert f"; the runs agree on {compared - 1} of them." in text
    across_machines = [judgement for judgement in judgements if {"this run", "other"} <= set(judgement.tested)]
    mixed = len(across_machines)
    assert f"{mixed} were tested by different kinds of machine, which agree on {mixed - 1}." in text


def test_machines_that_agree_and_one_alone(runs):
    judgements = judge(all_claims(), runs[:2])
    text = disagreements_markdown(judgements, runs[:2])
    assert all(judgement.agreed for judgement in judgements) and "**" not in text
    assert "not that other machines agree" in text
    assert "only by chance" in differences(runs[:2], ["this run", "a-reference"])
    assert "only one run" in disagreements_markdown(judge(all_claims(), runs[:1]), runs[:1])


def test_the_table_has_a_line_for_each_claim_with_its_cell_and_the_other_verdicts(judgements):
    lines = [line for line in judgements_markdown(judgements).splitlines() if line.startswith("| [")]
    assert len(lines) == len(all_claims()) and all(line.count(" | ") == 4 for line in lines)
    (line,) = [line for line in lines if line.startswith("| [LO6]")]
    assert "(02_logp_old_oom.ipynb#If-you-can't-upgrade)" in line and "**refuted**" in line
    assert re.search(r"\| a-reference: refuted, .*; other: supported, .* \|$", line)


def test_a_claim_that_the_run_can_not_test_is_judged_by_a_machine_that_can(folders, runs):
    without_chapter_3 = Records(
        record for record in read_records(folders[0]) if not record.name.startswith("slice_sampler.")
    )
    table = judgements_markdown(judge(all_claims(), [MachineRun("this run", without_chapter_3), runs[1]]))
    (line,) = [line for line in table.splitlines() if line.startswith("| [SS4]")]
    assert "(by a-reference)" in line and line.endswith("– |")


def test_the_picture_has_a_tile_for_each_claim_and_an_edge_where_machines_disagree(judgements):
    figure = plot_verdicts(judgements, "this run")
    tiles = figure.axes[0].patches
    assert len(tiles) == len(all_claims()) and sum(tile.get_linewidth() == 2.5 for tile in tiles) == 1
    assert len({tile.get_xy() for tile in tiles}) == len(tiles)
    for tile, judgement in zip(tiles, judgements, strict=True):
        assert to_hex(tile.get_facecolor()) == OUTCOME_STYLE[judgement.verdicts["this run"].outcome][0].lower()
    counts = Counter(judgement.verdicts["this run"].outcome for judgement in judgements)
    assert f"{counts['refuted']} refuted" in figure.axes[0].get_title("left")
    assert all(f"{claim.id} " in figure.alt() for claim in all_claims())
