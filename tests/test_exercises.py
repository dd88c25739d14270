"""Exercises: every check fails kindly on the untouched notebook, and passes with the solution of the book."""

import ast
import re

import nbformat
import pytest

from rlrepro.agreement import gather, judge_all
from rlrepro.exercises.core import CHAPTERS, exercises, judge
from rlrepro.lab import read_records
from rlrepro.reproduce import find_notebooks

from .conftest import ROOT

SOLUTIONS = {path.stem: path for path in sorted((ROOT / "book/solutions").glob("0*.md"))}


def checks(notebook):
    """The calls of `check` in a notebook: exercise number, name of the answer, source of the records."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "code" and "\ncheck(" in cell.source:
            call = ast.parse(cell.source.splitlines()[-1]).body[0].value
            yield call.args[0].value, call.args[1].id


@pytest.fixture(scope="module")
def solved(run):
    """By chapter: the names that its solutions define, and the records of the smoke run that they are held against."""
    evidence = gather(run, run / "none")
    found = {}
    for name, path in SOLUTIONS.items():
        records = read_records(run if name.startswith("06") else run / f"{name}.jsonl")
        names = {"evidence": evidence, "judged": judge_all(evidence)}
        for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
            exec(compile(block, str(path), "exec"), names)
        found[name] = names, records
    return found


EXERCISES = [(path.stem, *each) for path in find_notebooks() for each in checks(path)]


def test_each_chapter_has_three_to_five_and_solutions():
    for path in find_notebooks():
        found = [number for number, _ in checks(path)]
        assert 3 <= len(found) <= 5 and found == list(exercises(str(int(path.stem[:2]))))
        assert path.stem in SOLUTIONS
    assert len(CHAPTERS) == len(find_notebooks())


@pytest.mark.parametrize("chapter, number, answer", EXERCISES)
def test_a_solution_passes_and_no_answer_fails_kindly(solved, chapter, number, answer):
    names, records = solved[chapter]
    untouched = judge(number, None, records)
    assert not untouched.right and untouched.message.startswith("not answered yet")
    solution = judge(number, names[answer], records)
    assert solution.right, solution.message


WRONG = {
    "0.1": lambda rows: rows * 4096 * 4,
    "0.2": 64,
    "0.3": lambda records: exec("raise KeyError('no')"),
    "1.1": {"1.1.0 fails in learn": "max_batchsize"},
    "1.2": lambda rows, size: size,
    "1.3": 2048,
    "1.4": 1000,
    "2.1": lambda rows, max_batchsize: rows,
    "2.2": lambda records, gib: 10,
    "2.3": lambda dist, actions: dist.log_prob(actions).flatten(),
    "2.4": lambda fn, rows, size: fn(rows),
    "3.1": lambda length, slice_len: length - slice_len + 1,
    "3.2": lambda release, stored, id_bytes: stored * id_bytes,
    "3.3": lambda capacity, written, episode: [],
    "3.4": lambda records, seconds: seconds,
    "4.1": lambda cores, trainings: cores // trainings,
    "4.2": {},
    "4.3": lambda records: 0.0,
    "4.4": {"OMP_NUM_THREADS": "2"},
    "5.1": 4 * 768,
    "5.2": lambda mask: mask,
    "5.3": lambda weight, bias, states, actions: states,
    "5.4": lambda critic, states, actions, size: critic(states, actions).max(1),
    "6.1": "logp_old.peak",
    "6.2": {"LO5"},
    "6.3": lambda records: None,
}


@pytest.mark.parametrize("chapter, number, answer", EXERCISES)
def test_a_wrong_answer_gets_a_hint_that_is_not_the_answer(solved, chapter, number, answer):
    names, records = solved[chapter]
    told = judge(number, WRONG[number], records)
    assert not told.right and told.message.startswith(("not yet. ", "your answer could not be used: "))
    solution = names[answer]
    if isinstance(solution, int | str) and not isinstance(solution, bool):
        assert f"{solution:,}" not in told.message if isinstance(solution, int) else solution not in told.message


def test_the_untouched_notebooks_say_what_to_do(run):
    for path in find_notebooks():
        text = (run / path.name).read_text()
        for number, _ in checks(path):
            assert f"✗ Exercise {number}: not answered yet" in text
    with pytest.raises(KeyError, match=r"there are 2\.1"):
        judge("2.9", 1)
