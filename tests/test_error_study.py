"""The study of errors in plans: random updates are planned and run."""

from dataclasses import replace

import pytest

from rlrepro.cases.two_batch_sizes import RECORDS, plots
from rlrepro.cases.two_batch_sizes.error_study.__main__ import measure, measure_on_card, plan_for_card
from rlrepro.cases.two_batch_sizes.error_study.summary import FOR_CARDS, NAME, card_table, on_cards
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
    assert "with the margin, 0 are too low" in plots.plot_random_updates(book.records).alt()
    setting = {**book.records[0].setting, "with_margin": 0.9}
    book.add("random_plan", 0.95, **setting)
    assert "with the margin, 1 are too low" in plots.plot_random_updates(book.records).alt()


def test_a_number_is_the_same_update_each_time():
    first, repeated, other = random_update(1), random_update(1), random_update(2)
    descriptions = [(update.algorithm, update.network, update.dtype) for update in (first, repeated, other)]
    assert descriptions[0] == descriptions[1] != descriptions[2]


def test_plans_for_a_gpu_are_compared_with_what_it_allocated(tmp_path):
    assert on_cards(tmp_path) == "" and "Nothing" in card_table(tmp_path)
    book = RecordBook(
        tmp_path / "machine" / FOR_CARDS,
        case="two_batch_sizes",
        profile="full",
        device="cpu",
        seed=0,
        quantities=RECORDS,
    )
    names = {"algorithm": "dqn", "dtype": "float32", "stage": "update", "card": "NVIDIA H200"}
    for number, ratio in enumerate((0.9, 0.99, 1.0, 1.15, 1.2)):
        reserved = ratio if number else None  # not planned for a library
        book.add("random_plan_for_card", ratio, number=number, network="plain, residual", reserved=reserved, **names)
    sentence = on_cards(tmp_path)
    assert sentence.endswith("allocated there and 15% more in 40.0% of 5 stages planned without a GPU")
    assert card_table(tmp_path).splitlines()[-1] == "| without a GPU | plain | 5 | 2 | 2 | 0.9 | 1 | 1.2 | 1 of 4 |"

    on_gpu = [record.model_copy(update={"device": "cuda"}).model_dump_json() for record in book.records[1:3]]
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / FOR_CARDS).write_text("\n".join(on_gpu))
    assert on_cards(tmp_path) == sentence + " and in 50.0% of 2 stages planned on the GPU"
    assert card_table(tmp_path).splitlines()[-1] == "| on the GPU | plain | 2 | 1 | 1 | 0.99 | 0.995 | 1 | 1 of 2 |"


def test_a_card_is_measured_stage_by_stage(tmp_path):
    book = RecordBook(tmp_path / NAME, case="two_batch_sizes", profile="full", device="cpu", seed=0, quantities=RECORDS)
    update = replace(random_update(6, "cuda"), run=lambda: {"update": (70 * 2**20, 80 * 2**20)})
    measure_on_card(book, update)
    plan_for_card(book, update, [*book.records])
    measured, planned = book.records
    assert measured.value == 70 * 2**20 and measured.setting["reserved"] == 80 * 2**20
    assert 0.9 < planned.value < 1.1 and 0.7 < planned.setting["reserved"] < 1.2
