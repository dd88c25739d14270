"""The problem that a text matches: real tracebacks of the releases, posts in threads, and texts that are not ours.

`tracebacks.jsonl` has a line for each text: the id of the problem that it shows (null: none of ours), its source, and
the text.
"""

import json
import re

import pytest

from rlrepro.cases import all_claims
from rlrepro.course.site.front_page import NOT_MEASURED, cards, gain
from rlrepro.doctor.finding import all_rules
from rlrepro.doctor.triage import NOT_OURS, describe, load, triage
from rlrepro.evidence.verdicts import load_runs

from .conftest import REFERENCE, ROOT

TEXTS = [json.loads(line) for line in (ROOT / "tests" / "tracebacks.jsonl").read_text().splitlines()]
OURS = [sample for sample in TEXTS if sample["problem"]]
OTHERS = [sample for sample in TEXTS if not sample["problem"]]
PROBLEMS = {problem["id"]: problem for problem in load()["problem"]}


def first(text):
    return next((problem["id"] for problem in triage(text)), None)


@pytest.mark.parametrize("sample", OURS, ids=lambda sample: sample["from"])
def test_the_right_problem_comes_first(sample):
    assert first(sample["text"]) == sample["problem"]


def test_texts_without_our_problems_get_no_answer():
    wrong = [sample["from"] for sample in OTHERS if first(sample["text"])]
    assert len(OTHERS) >= 60 and len(wrong) <= 0.05 * len(OTHERS), wrong


def test_the_texts_cover_each_problem_and_chapter():
    tracebacks = {
        PROBLEMS[sample["problem"]]["chapter"] for sample in OURS if re.search(load()["traceback"], sample["text"])
    }
    assert {sample["problem"] for sample in OURS} == set(PROBLEMS)
    assert tracebacks >= {claim.chapter for claim in all_claims()}


def test_a_paste_from_windows_or_with_broken_lines_is_the_same():
    (text,) = (sample["text"] for sample in OURS if sample["from"] == "tianshou==1.0.0, logp_old")
    assert first(text.replace("/", "\\")) == first(" ".join(text.split())) == first(text.upper()) == "logp-old"


def test_words_do_not_count_in_a_traceback():
    words = "training slows down as the replay buffer fills"
    assert first(words) == "nan-scan" and first(f'{words}\n  File "train.py", line 3, in <module>\nKeyError: 3') is None


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_everything_that_a_card_names_exists(problem):
    assert set(problem["rules"]) <= set(all_rules())
    assert (ROOT / "notebooks" / f"{problem['chapter']}.ipynb").exists()
    for expression in (pattern for kind in ("errors", "words") for sign in problem[kind] for pattern in sign):
        assert set(re.findall(r"@(\w+)", expression)) <= set(load()["concepts"]) and re.compile(expression)


def test_a_card_has_the_numbers_of_the_reference_records():
    runs = load_runs(REFERENCE, ROOT / "none")
    all_runs = load_runs(REFERENCE, ROOT / "results")  # some are only of a GPU
    gains = {name: gain(problem["proof"], all_runs) for name, problem in PROBLEMS.items() if "proof" in problem}
    assert not [text for text in gains.values() if re.match(r"\*\*(.+) → \1\*\*", text)]
    assert NOT_MEASURED not in gains.values()
    before, after = (
        max(run.records.series("logp_old.peak", "rows", release=release, network="nature").items())[1]
        for run in runs
        for release in ("1.0.0", "1.1.0")
    )
    assert gains["logp-old"].startswith(f"**{before / 2**30:.1f} GiB → {after / 2**20:.1f} MiB**")
    assert gain(PROBLEMS["logp-old"]["proof"] | {"record": "logp_old.none"}, runs) == NOT_MEASURED


def test_a_problem_may_have_no_rule(monkeypatch):
    problem = PROBLEMS["logp-old"]
    monkeypatch.setitem(problem, "rules", [])
    assert "doctor --explain" not in describe("GPU out of memory in logp_old")[0]
    assert "rules" not in cards([]).split(problem["title"])[1].split(":::")[0]


def test_the_command_line_reads_a_pipe(run_cli):
    result = run_cli("triage", input="GPU out of memory in logp_old")
    assert result.returncode == 0 and "ChunkedPPOPolicy" in result.stdout and "02_logp_old_oom" in result.stdout
    result = run_cli("triage", input="KeyError: 'lr'")
    assert result.returncode == 1 and result.stdout.strip() == NOT_OURS
