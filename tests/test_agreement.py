"""Runs of several machines: each is judged by its own records, and where they disagree that is told."""

import re
from collections import Counter

import pytest
from matplotlib.colors import to_hex

from rlrepro.cases import all_claims
from rlrepro.evidence import Records, read_records
from rlrepro.evidence.compare_runs import (
    SHOWN,
    disagreement_markdown,
    evidence_markdown,
    gather,
    how_they_differ,
    judge_all,
    judged_markdown,
    plot_verdicts,
)

from .conftest import ROOT

REFERENCE = sorted(ROOT.glob("results/*-cores-*"))[0]


def write(folder, records):
    folder.mkdir(parents=True)
    (folder / "records.jsonl").write_text("".join(record.model_dump_json() + "\n" for record in records))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run like the reference machine's; the reference; and one with a GPU, on which LO6's snippet ran, without
    chapter 3."""
    folder = tmp_path_factory.mktemp("machines")
    records = read_records(REFERENCE)
    write(folder / "run", records)
    write(folder / "results" / "a-reference", records)
    there = records[0].machine.model_copy(update={"name": "other", "cores": 16, "gpu": "a card"})
    changed = [
        record.model_copy(
            update={"machine": there, "device": "cuda"}
            | ({"value": None} if record.name == "logp_old.snippet_error" else {})
        )
        for record in records
        if not record.name.startswith("slice_sampler.")
    ]
    write(folder / "results" / "other", changed)
    return folder / "run", folder / "results"


@pytest.fixture(scope="module")
def evidence(folders):
    return gather(*folders)


@pytest.fixture(scope="module")
def judged(evidence):
    return judge_all(evidence, all_claims())


def test_the_run_comes_first_then_each_machine(evidence):
    assert [each.label for each in evidence] == ["this run", "a-reference", "other"]
    assert evidence[2].traits["cores"] == "16" and evidence[2].traits["device"] == "cuda"
    table = evidence_markdown(evidence).splitlines()
    assert table[0].count("|") == 5 and any("a card" in line for line in table)


def test_a_folder_may_have_any_name(folders, tmp_path):
    records = read_records(folders[0])
    for name in ("this run", "a|b"):
        write(tmp_path / "results" / name, records)
    evidence = gather(folders[0], tmp_path / "results")
    assert [each.label for each in evidence] == ["this run", "a|b", "results/this run"]
    assert all(len(each.verdicts) == 3 for each in judge_all(evidence, all_claims()))
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in evidence_markdown(evidence).splitlines())


def test_devices_of_one_folder_are_judged_apart(tmp_path):
    records = read_records(REFERENCE)
    twins = [record.model_copy(update={"device": "cuda"}) for record in records]
    write(tmp_path / "run", [*records, *twins])
    labels = [each.label for each in gather(tmp_path / "run", tmp_path / "none")]
    assert len(labels) == 2 and labels[0].endswith("cpu") and labels[1].endswith("cuda")


def test_without_a_run_the_machines_are_shown_and_without_both_it_says_what_to_do(folders, tmp_path):
    assert [each.label for each in gather(tmp_path / "none", folders[1])] == ["a-reference", "other"]
    with pytest.raises(FileNotFoundError, match="rlrepro reproduce"):
        gather(tmp_path / "none", tmp_path / "none")


def test_a_disagreement_is_told_with_what_may_be_why(judged, evidence):
    apart = [each.claim.id for each in judged if not each.agreed]
    assert apart == ["LO6"]
    told = disagreement_markdown(judged, evidence)
    assert "**LO6**" in told and "other: supported" in told and "this run: refuted" in told
    assert "cores 2 / 16" in told and "GPU none / a card" in told and "device cpu / cuda" in told
    both = sum(len(each.tested) > 1 for each in judged)
    assert f"Of {len(all_claims())} claims, {both} were tested by more than one run; {both - 1} of them agree" in told


def test_machines_that_agree_and_one_alone(judged, evidence):
    same = judge_all(evidence[:2], all_claims())
    assert all(each.agreed for each in same) and "**" not in disagreement_markdown(same, evidence[:2])
    assert "nothing but chance" in how_they_differ(evidence[:2], ["this run", "a-reference"])
    assert "one run only" in disagreement_markdown(judge_all(evidence[:1], all_claims()), evidence[:1])


def test_the_table_has_a_line_a_claim_with_its_cell_and_what_others_say(judged):
    lines = judged_markdown(judged).splitlines()[2:]
    assert len(lines) == len(all_claims()) and all(line.count(" | ") == 4 for line in lines)
    (line,) = [line for line in lines if line.startswith("| [LO6]")]
    assert "(02_logp_old_oom.ipynb#If-you-can't-upgrade)" in line and "**refuted**" in line
    assert re.search(r"\| a-reference: refuted, .*; other: supported, .* \|$", line)


def test_what_the_run_can_not_tell_is_told_by_a_machine_that_can(folders, evidence):
    few = Records(record for record in read_records(folders[0]) if not record.name.startswith("slice_sampler."))
    replaced = [type(evidence[0])("this run", few), evidence[1]]
    (line,) = [
        line for line in judged_markdown(judge_all(replaced, all_claims())).splitlines() if line.startswith("| [SS4]")
    ]
    assert "(by a-reference)" in line and line.endswith("– |")


def test_the_picture_has_a_tile_a_claim_and_an_edge_where_machines_disagree(judged):
    figure = plot_verdicts(judged, "this run")
    tiles = figure.axes[0].patches
    assert len(tiles) == len(all_claims()) and sum(tile.get_linewidth() == 2.5 for tile in tiles) == 1
    assert len({tile.get_xy() for tile in tiles}) == len(tiles)
    for tile, each in zip(tiles, judged, strict=True):
        assert to_hex(tile.get_facecolor()) == SHOWN[each.verdicts["this run"].outcome][0].lower()
    told = Counter(each.verdicts["this run"].outcome for each in judged)
    assert f"{told['refuted']} refuted" in figure.axes[0].get_title("left")
    assert all(f"{claim.id} " in figure.alt() for claim in all_claims())
