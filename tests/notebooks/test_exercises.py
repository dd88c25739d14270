"""Exercises: every check fails with a kind message on the untouched notebook, and passes with the book's solution."""

import ast
import re

import nbformat
import pytest
import torch

from rlrepro.cases import all_claims
from rlrepro.course.exercises.core import CHAPTERS, exercises, judge
from rlrepro.course.runner import find_notebooks
from rlrepro.evidence import read_records
from rlrepro.evidence.verdicts import judge as judge_claims
from rlrepro.evidence.verdicts import load_runs

from ..conftest import REFERENCE, ROOT
from .exercise_answers import WRONG

SOLUTIONS = {path.stem: path for path in sorted((ROOT / "book/solutions").glob("[01]*.md"))}


def checks(notebook):
    """The calls of `check` in a notebook: exercise number, name of the answer, source of the records."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "code" and "\ncheck(" in cell.source:
            call = ast.parse(cell.source.splitlines()[-1]).body[0].value
            yield call.args[0].value, call.args[1].id


@pytest.fixture(scope="module")
def solved(run):
    """By chapter: the names that its solutions define, and the smoke run's records to check them against."""
    runs = load_runs(run, run / "none")
    by_chapter = {}
    for name, path in SOLUTIONS.items():
        records = read_records(run if name.startswith("06") else run / f"{name}.jsonl")
        names = {"runs": runs, "judgements": judge_claims(all_claims(), runs)}
        for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
            exec(compile(block, str(path), "exec"), names)
        by_chapter[name] = names, records
    return by_chapter


EXERCISES = [(path.stem, *call) for path in find_notebooks() for call in checks(path)]


def test_each_chapter_has_three_to_five_and_solutions():
    for path in find_notebooks():
        numbers = [number for number, _ in checks(path)]
        assert 3 <= len(numbers) <= 5 and numbers == list(exercises(str(int(path.stem[:2]))))
        assert path.stem in SOLUTIONS
    assert len(CHAPTERS) == len(find_notebooks())


@pytest.mark.parametrize("chapter, number, answer", EXERCISES)
def test_a_solution_passes_and_no_answer_fails_kindly(solved, chapter, number, answer):
    names, records = solved[chapter]
    untouched = judge(number, None, records)
    assert not untouched.right and untouched.message.startswith("not answered yet")
    solution = judge(number, names[answer], records)
    assert solution.right, solution.message


@pytest.mark.parametrize("chapter, number, answer", EXERCISES)
def test_a_wrong_answer_gets_a_hint_that_is_not_the_answer(solved, chapter, number, answer):
    names, records = solved[chapter]
    solution = names[answer]
    assert number in WRONG, f"exercise_answers.py has wrong answers to every exercise; add some to {number}"
    for wrong, word in WRONG[number]:
        judgement = judge(number, wrong, records)
        assert not judgement.right and judgement.message.startswith(("not yet. ", "your answer could not be used: ")), (
            wrong
        )
        assert word is None or word in judgement.message
        if isinstance(solution, int | str):
            assert (f"{solution:,}" if isinstance(solution, int) else solution) not in judgement.message


@pytest.mark.parametrize("chapter, number, answer", EXERCISES)
def test_solutions_pass_by_the_records_of_the_reference_machine(solved, chapter, number, answer):
    names, _ = solved[chapter]
    if chapter != "06_verdicts":  # its answers are of the run
        assert judge(number, names[answer], read_records(REFERENCE / f"{chapter}.jsonl")).right


def test_a_check_leaves_random_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    for number in ("5.2", "5.3", "5.4", "2.3"):
        judge(number, lambda *args: torch.rand(3))
    assert torch.equal(torch.rand(1), expected)


def test_an_error_names_the_readers_own_line():
    def readers_function(dist, actions):
        raise ValueError("my mistake")

    assert 'raise ValueError("my mistake")' in judge("2.3", readers_function).message
    assert "line" not in judge("0.2", "many").message


def test_the_untouched_notebooks_ask_for_answers(run):
    for path in find_notebooks():
        text = (run / path.name).read_text()
        for number, _ in checks(path):
            assert f"✗ Exercise {number}: not answered yet" in text
    with pytest.raises(KeyError, match=r"there are 2\.1"):
        judge("2.9", 1)
