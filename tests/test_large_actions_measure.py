"""The loops of chapter 5, at sizes that take seconds: they add the records that claims, tables and plots need."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from rlrepro.cases import large_actions
from rlrepro.cases.common.bench import Bench
from rlrepro.cases.large_actions import (
    BATCH,
    CARD_GIB,
    CHAPTER,
    CLAIMS,
    RECORDS,
    SETTINGS,
    PearlBackend,
    critic_times,
    fixed_workloads,
    measure,
    plots,
    tables,
)
from rlrepro.evidence import Records, read_records
from rlrepro.evidence.schema import declared

from .conftest import ROOT

pytestmark = [pytest.mark.filterwarnings("ignore:No target network updater"), pytest.mark.slow]

SMALL = replace(
    SETTINGS["tiny"],
    action_counts=(10, 30),
    pairs=120,
    one_hot_counts=(100, 200),
    critic_counts=(5,),
    timed_sizes=((20, 4),),
    repeats=2,
    transitions_stored=(1, 128, 140),
    leak_actions=5,
    multiples=(2,),
    training_updates=10,
    training_actions=50,
)


class InThisProcess:
    """A stand-in for a Release."""

    def run(self, fn, *args):
        return fn(*args)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        pass


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    case = SimpleNamespace(
        __name__=large_actions.__name__,
        CHAPTER=large_actions.CHAPTER,
        RECORDS=large_actions.RECORDS,
        SETTINGS={"small": SMALL},
    )
    return Bench(case, profile="small", device="cpu", seed=0, out=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def records(bench):
    """The records of the chapter's steps, in its order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RLREPRO_PEARL", raising=False)
        patch.setattr(bench, "release", lambda requirement: InThisProcess())
        backend = PearlBackend()
        for step in (measure.stored_by_actions, measure.update_peaks, measure.since_start, measure.pearl_batches):
            step(bench, backend)
        measure.torchrl_encodings(bench)
        measure.article_fixes(bench, backend)
        in_pearl, shared = measure.shared_storage(bench)
        assert bench.records.get("large_actions.stored_ratio").value == in_pearl / shared > 10_000
        measure.planned_peaks(bench)
        assert measure.value_difference(bench) < 1e-5
        measure.critic_peaks(bench)
        critic_times.times(bench)
        critic_times.limits(bench)
        (planned,) = measure.largest_action_counts(bench).items()
        largest = {way: bench.records.get("large_actions.largest", way=way).value for way in fixed_workloads.UPDATES}
        assert planned[0] == largest["factored"] == 2 * largest["plain"] and planned[1] <= CARD_GIB * 2**30
        measure.update_with_factored_critics(bench, backend)
        measure.training(bench)
    return bench.records


def test_they_add_every_quantity_that_does_not_need_pearl(records):
    need_pearl = {"update_peak_factored", "article_update"}
    names = {f"large_actions.{quantity.name}" for quantity in RECORDS if quantity.name not in need_pearl}
    assert {record.name for record in records} == names


def test_small_sizes_give_the_verdicts_of_the_reference_run(records):
    reference = read_records(sorted(ROOT.glob(f"results/*/{CHAPTER}.jsonl"))[0])
    outcomes = [[claim.verdict(run_records).outcome for claim in CLAIMS] for run_records in (records, reference)]
    assert outcomes[0] == outcomes[1] and "not testable here" not in outcomes[0]


def test_tables_have_a_row_for_each_measurement(records):
    rows = {
        name: len(getattr(tables, f"{name}_table")(records).splitlines()) - 2
        for name in ("transition", "update", "fix", "critic", "time", "limit", "training")
    }
    assert rows == {"transition": 6, "update": 3, "fix": 6, "critic": 2 * 2, "time": 2, "limit": 2, "training": 1}
    assert "not run" not in tables.critic_table(records) + tables.time_table(records)
    remaining = Records(
        record for record in records if record.setting.get("way") != "plain" or "planned" in record.name
    )
    assert tables.critic_table(remaining).count("not run") == 2


def test_plots_are_drawn(records):
    for plot in (plots.plot_bytes, plots.plot_peaks, plots.plot_since_start):
        assert "<svg" in plot(records).html()


def test_sizes_that_do_not_fit_are_planned_and_not_run(bench, records, monkeypatch):
    monkeypatch.setattr(measure.fixed_workloads, "free_bytes", lambda device: 0)
    before = len(records.where("large_actions.critic_peak", rows=4))
    measure.critic_peaks(bench)
    assert len(records.where("large_actions.critic_peak", rows=4)) == before == 2


@pytest.mark.parametrize("profile", SETTINGS)
def test_a_batch_has_four_states_at_least_and_the_articles_at_most(profile):
    settings = SETTINGS[profile]
    sizes = [settings.batch_size(count) for count in settings.action_counts]
    assert all(4 <= size <= BATCH for size in sizes) and sizes == sorted(sizes, reverse=True)


def test_the_reference_records_are_as_declared():
    for path in ROOT.glob(f"results/*/{CHAPTER}.jsonl"):
        for record in read_records(path):
            quantity = declared(RECORDS, record.name.removeprefix("large_actions."))
            quantity.check(record.setting)
            assert quantity.unit == record.unit
