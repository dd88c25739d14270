"""Labs: the book's solution is right, and half-right and wrong answers get a message that explains the loss."""

import ast
import re

import cloudpickle
import nbformat
import pytest

from rlrepro.course.labs.core import LABS, NAMES, Trial, grade, lab
from rlrepro.course.runner import find_notebooks

from . import lab_answers
from .conftest import ROOT

cloudpickle.register_pickle_by_value(lab_answers)  # like code that a notebook defines
CHAPTERS = {str(int(path.stem[:2])): path for path in find_notebooks()}
SOLUTIONS = {str(int(path.stem[:2])): path for path in (ROOT / "book/solutions").glob("[01]*.md")}
HALF = [
    ("1", "gradients_off_for_good", "Gradients are still off"),
    ("1", "nothing", "a backward pass would need"),
    ("2", "logp_with_graph", "carries a graph"),
    ("2", "logp_with_remainder_joined", "the remainder was joined"),
    ("3", "cached_sampler", "repeats for transitions"),
    ("4", "pool_with_all_threads", "how many threads"),
    ("5", "best_of_chunks", "what does the first layer compute anew"),
    ("5", "best_of_all_split", "in memory at once"),
    ("8", "nan_without_copies", "where something was written"),
    ("9", "env_that_naps", "how late does the parent wake up"),
    ("10", "values_with_graph", "what stays of a chunk"),
    ("10", "values_at_once", "How many timesteps"),
]
WRONG = [
    ("1", "other_actions", "other actions were taken"),
    ("2", "logp_shuffled", "differs from the unfixed release's"),
    ("3", "stale_sampler", "After"),
    ("4", "first_come", "in their order"),
    ("5", "best_without_offset", "Where do chunks begin"),
    ("8", "nan_in_last", "check returns True"),
    ("9", "env_that_clears_nothing", "whose flags were seen"),
    ("10", "values_reversed", "differ from those of the unfixed release"),
]


TIMED = ("3", "4", "5", "8", "9")  # labs that time answers; the others only count bytes


def timed_alone(*cases):
    """Cases of labs that time answers run when nothing else does."""
    return [pytest.param(*case, marks=pytest.mark.timing if case[0] in TIMED else ()) for case in cases]


@pytest.fixture
def default_waits(monkeypatch):
    """Threads wait for each other as torch's default has it, whatever variables this shell sets."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


def graded(chapter, answer):
    judgement = grade(chapter, answer)
    if "this lab needs RLlib" in judgement.message:
        pytest.skip(judgement.message)
    return judgement


@pytest.mark.slow
@pytest.mark.parametrize("chapter", timed_alone(*zip(LABS, strict=True)))
def test_the_solution_of_the_book_is_right(chapter, default_waits):
    names = {"__name__": "__main__"}  # pickled by value
    for block in re.findall(r"```python\n(.*?)```", SOLUTIONS[chapter].read_text(), re.DOTALL):
        exec(compile(block, str(SOLUTIONS[chapter]), "exec"), names)
    judgement = graded(chapter, names[_answer_name(chapter)])
    assert judgement.grade == "right", judgement.message
    assert set(judgement.trial.costs) <= set(NAMES) and judgement.trial.times_ours("released") > 2


@pytest.mark.slow
@pytest.mark.parametrize("chapter, name, hint", timed_alone(*HALF))
def test_the_message_names_what_a_half_right_answer_loses(chapter, name, hint, default_waits):
    judgement = graded(chapter, getattr(lab_answers, name))
    assert judgement.grade == "half" and hint in judgement.message, judgement.message


@pytest.mark.slow
@pytest.mark.parametrize("chapter, name, hint", WRONG)
def test_the_message_names_what_differs_in_a_wrong_answer(chapter, name, hint, default_waits):
    judgement = graded(chapter, getattr(lab_answers, name))
    assert (judgement.grade, judgement.trial) == ("wrong", None) and hint in judgement.message, judgement.message


@pytest.mark.parametrize("chapter", LABS)
def test_a_notebook_has_its_lab_and_runs_nothing(chapter, capsys):
    name = _answer_name(chapter)
    assert any(f"{name} = None" in cell.source for cell in nbformat.read(CHAPTERS[chapter], as_version=4).cells)
    assert lab(chapter, None) is None
    assert "write your fix in place of None" in capsys.readouterr().out


def test_each_lab_has_all_three_kinds_of_answers():
    half, wrong = ({chapter for chapter, *_ in answers} for answers in (HALF, WRONG))
    assert half == wrong == set(LABS), "HALF and WRONG above name answers of tests/lab_answers.py for each lab"


def test_the_message_names_the_error_of_a_failing_answer():
    judgement = grade("5", lambda net, states, actions: states.no_such_name)
    assert judgement.grade == "wrong" and "no_such_name" in judgement.message


@pytest.mark.parametrize("unit", ["B", "s"])
def test_the_figure_shows_each_cost(unit):
    costs = {"released": [8.0, 9.0], "yours": [4.0, 4.0], "ours": [1.0, 1.0]}
    figure = Trial(costs, unit, "what was measured", 2).figure()
    assert figure.html() and all(NAMES[version] in figure.alt() for version in costs)
    assert figure.alt().startswith("Your fix: 4 times")


def _answer_name(chapter) -> str:
    """The name that a notebook passes to its lab."""
    for cell in nbformat.read(CHAPTERS[chapter], as_version=4).cells:
        if cell.cell_type == "code" and re.search(r"^lab\(", cell.source, re.MULTILINE):
            return ast.parse(cell.source.splitlines()[-1]).body[0].value.args[1].id
    raise LookupError(f"no lab in {CHAPTERS[chapter]}")
