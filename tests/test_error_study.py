"""The study of errors in plans: random updates are planned and run."""

import pytest

from rlrepro.cases.two_batch_sizes import RECORDS, plots
from rlrepro.cases.two_batch_sizes.error_study.__main__ import measure
from rlrepro.cases.two_batch_sizes.error_study.updates import random_update
from rlrepro.evidence.records import RecordBook

NUMBERS = (2, 6, 29)  # tianshou's PPO with a shared trunk, a DQN in bfloat16, Stable-Baselines3's PPO


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "random_updates.jsonl"
    book = RecordBook(path, case="two_batch_sizes", profile="full", device="cpu", seed=0, quantities=RECORDS)
    for number in NUMBERS:
        measure(book, random_update(number))
    return book


@pytest.mark.slow
def test_random_updates_are_planned_as_they_run(book):
    assert {record.setting["number"] for record in book.records} == set(NUMBERS)
    for record in book.records:
        assert record.value == pytest.approx(1, abs=0.01), record
        assert 1 <= record.setting["with_margin"] <= 1.1, record


@pytest.mark.slow
def test_the_plot_counts_what_is_planned_too_small(book):
    assert "0 stages too small with margin" in plots.plot_random_updates(book.records).alt()
    setting = {**book.records[0].setting, "with_margin": 0.9}
    book.add("random_plan", 0.95, **setting)
    assert "1 stages too small with margin" in plots.plot_random_updates(book.records).alt()


def test_a_number_is_the_same_update_each_time():
    first, repeated, other = random_update(1), random_update(1), random_update(2)
    descriptions = [(update.algorithm, update.network, update.dtype) for update in (first, repeated, other)]
    assert descriptions[0] == descriptions[1] != descriptions[2]
