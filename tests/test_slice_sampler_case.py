"""The chapter on SliceSampler: its buffers, its byte counts, and its loops."""

import functools
import re
import weakref
from dataclasses import replace

import psutil
import pytest
import torch

from rlrepro.cases import slice_sampler
from rlrepro.cases.common.bench import Bench
from rlrepro.cases.slice_sampler import (
    BUGGY,
    CLAIMS,
    FIXED,
    NEWEST,
    RECORDS,
    buffers,
    measure,
    plots,
    tables,
    workloads,
)

SIZES = {
    "stored": (2_000, 8_000, 40_000),
    "online_stored": (2_000, 40_000),
    "capacity": 100_000,
    "capacities": (2_500, 50_000, 100_000),
    "repeats": 1,
    "writes": 2,
} | dict.fromkeys(("moved_stored", "releases_stored", "timeline_stored"), 5_000)
LOOPS = (
    measure.sample_by_stored,
    measure.sample_by_capacity,
    measure.bytes_moved,
    measure.upstream_fixes,
    measure.sample_after_writes,
    measure.both_loops_by_release,
)


@pytest.mark.slow
def test_bytes_moved_are_as_predicted_from_shapes():
    """0.14.1 reads each id twice, and makes four passes over the flags."""
    for ids, size in (("int64", 8), ("int32", 4)):
        moved = workloads.moved(1_000_000, 1_000_001, "episode", ids, repeats=1)
        assert moved["bytes"] == pytest.approx(1_000_000 * (2 * size + 4), rel=0.1)


def test_a_buffer_that_does_not_fit_is_refused_with_one_that_does():
    free = psutil.virtual_memory().available
    with pytest.raises(MemoryError, match=r"are free here. The largest buffer that fits has [\d,]+ tr") as raised:
        buffers.check_memory(free // 10)
    largest = int(re.search(r"fits has ([\d,]+) transitions", str(raised.value))[1].replace(",", ""))
    buffers.check_memory(largest * 9 // 10)  # other processes take some in the meantime


@pytest.mark.slow
def test_a_buffer_is_freed_before_the_next_is_filled():
    first = weakref.ref(buffers.buffer(1000, 2000)._storage)
    buffers.buffer(1000, 3000)
    assert first() is None


@pytest.mark.slow
def test_a_buffer_is_filled_further_and_never_holds_more_than_requested():
    small = buffers.buffer(1_000, 9_000)
    assert buffers.buffer(4_000, 9_000) is small and len(small) == 4_000
    assert torch.equal(small[:]["episode"], torch.arange(4_000) // buffers.EPISODE_LEN)
    small.extend(buffers.transitions(4_000, 10))
    assert buffers.buffer(4_000, 9_000) is small  # including the transitions that `online` has written
    assert buffers.buffer(4_005, 9_000) is not small and len(buffers.buffer(4_005, 9_000)) == 4_005
    assert len(buffers.buffer(1_000, 9_000)) == 1_000


class ReleaseOfThisProcess:
    """Runs functions in this process, whatever its version is, so that no process has to start."""

    def __init__(self, requirement):
        self.version = requirement.partition("==")[2]

    def run(self, fn, *args):
        return fn(*args)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """A bench after every loop except that of the GPU, at sizes below tiny."""
    bench = Bench(slice_sampler, profile="tiny", device="cpu", seed=0, out=tmp_path_factory.mktemp("bench"))
    bench.release = functools.cache(ReleaseOfThisProcess)
    bench.settings = replace(bench.settings, **SIZES)
    for loop in LOOPS:
        loop(bench)
    return bench


@pytest.mark.slow
def test_the_loops_record_all_that_the_case_declares(bench):
    names = {record.name.partition(".")[2] for record in bench.records}
    assert names == {quantity.name for quantity in RECORDS} - {"online_on_card"}


@pytest.mark.slow
def test_the_loops_measure_each_release_sampler_and_size(bench):
    flagged = [record.setting for record in bench.records.where("slice_sampler.sample", sampler="done")]
    cells = [(2_000, 2_500), (2_000, 100_000), (8_000, 100_000), (40_000, 100_000)]
    assert [(entry["release"], entry["stored"], entry["capacity"]) for entry in flagged] == [
        (release, *cell) for release in (BUGGY, FIXED, NEWEST) for cell in cells
    ]
    setting = {"release": BUGGY, "sampler": "episode", "stored": 2_000}
    assert list(bench.records.series("slice_sampler.sample", "capacity", **setting)) == [2_500, 50_000, 100_000]
    samplers = set(bench.records.series("slice_sampler.sample", "sampler", release=NEWEST))
    assert samplers == {"episode", "done", "episode cached", "done cached", "ours", "gather"}
    assert list(bench.records.series("slice_sampler.online", "stored", sampler="ours")) == [2_000, 40_000]
    alone = bench.records.series("slice_sampler.online_alone", "sampler", stored=40_000)
    assert set(alone) == {"ours", "without replacement", "ours without replacement"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "release, dtype, per_transition",
    [(BUGGY, "int64", 36), (BUGGY, "bool", 8), (NEWEST, "int64", 20), (NEWEST, "int32", 12)],
)
def test_predicted_bytes(bench, release, dtype, per_transition):
    predicted = bench.records.get("slice_sampler.moved_predicted", release=release, dtype=dtype)
    assert predicted.value == 5_000 * per_transition


@pytest.mark.slow
def test_index_bytes_are_per_trajectory(bench):
    assert 16 <= bench.records.get("slice_sampler.index_bytes").value <= 32


@pytest.mark.slow
def test_verdicts_plots_and_tables_follow_from_these_records(bench):
    of_full = {"SS1", "SS2", "SS3", "SS7"}  # of the article's own sizes
    for claim in CLAIMS:  # here, nothing has to be slow
        verdict = claim.verdict(bench.records)
        assert verdict.outcome == "not testable here" or claim.id not in of_full, claim.id
        assert verdict.figure != "–" or claim.id in of_full, claim.id
    for name in ("sample_against_stored", "online", "sample_against_capacity", "moved", "timeline"):
        assert getattr(plots, f"plot_{name}")(bench.records).alt()
    assert tables.moved_list(bench.records).count("\n") == 6 and tables.upstream_list(bench.records).count("\n") == 6
    assert "40,000 transitions stored" in tables.cost_table(bench.records)
    fixes = tables.fix_list(bench.records)
    assert "with 2,000 stored" in fixes and "Without replacement, after each write" in fixes
    assert "–" in tables.article_table(bench.records)
