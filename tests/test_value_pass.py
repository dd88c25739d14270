"""RLlib's own learner, as released and with our fix. Without RLlib, only the chapter's messages are tested."""

import os
from importlib import metadata

import pytest

from rlrepro.cases import value_pass
from rlrepro.cases.common.bench import Bench
from rlrepro.cases.value_pass import CLAIMS, WAYS, measure, old_stack, plots, tables, workloads
from rlrepro.cases.value_pass.availability import Note
from rlrepro.lab import Release, this_machine


@pytest.fixture(scope="module")
def rllib():
    with Release(f"ray=={metadata.version('ray')}") as release:
        if missing := release.run(workloads.missing):
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"RLlib is not installed: {missing}")
        yield release


@pytest.mark.slow
def test_the_value_network_gets_the_whole_batch_with_gradients_and_ours_does_not(rllib):
    released, ours = (rllib.run(workloads.value_pass, "nature", 128, 8, way) for way in WAYS)
    episodes = 2  # each episode gets one extra timestep
    assert (released["largest_call"], released["with_gradients"]) == (128 + episodes, True)
    assert (ours["largest_call"], ours["with_gradients"]) == (8, False)
    assert released["held"] == ours["held"] == 0
    assert released["peak"] >= 25 * ours["peak"]  # of 16 minibatches, with gradients


@pytest.mark.slow
def test_memory_grows_with_the_batch_and_ours_does_not(rllib):
    peaks = {
        way: [rllib.run(workloads.value_pass, "nature", rows, 8, way)["peak"] for rows in (100, 200, 400)]
        for way in ("released", "no_grad", "chunked")
    }
    for way in ("released", "no_grad"):
        first, second = (larger - smaller for smaller, larger in zip(peaks[way], peaks[way][1:], strict=False))
        assert second == pytest.approx(2 * first, rel=0.01)
    assert peaks["chunked"][2] - peaks["chunked"][0] < 64 * 300  # bytes per timestep, of results
    assert peaks["released"] == [
        rllib.run(workloads.value_pass, "nature", rows, 8, "released")["peak"] for rows in (100, 200, 400)
    ]


@pytest.mark.slow
def test_minibatch_size_sets_the_peak_of_ours_only(rllib):
    small, large = (
        {way: rllib.run(workloads.update_peak, "nature", 128, size, way) for way in WAYS} for size in (4, 32)
    )
    assert large["released"] == pytest.approx(small["released"], rel=0.01)
    assert large["chunked"] > 1.5 * small["chunked"] and large["released"] > large["chunked"]


@pytest.mark.slow
def test_the_graph_lives_until_the_connector_returns(rllib):
    released, ours = (rllib.run(workloads.live_by_stage, "nature", 128, 8, way)["live"] for way in WAYS)
    graph = released["values computed"]
    assert graph > 128 * 100_000 and released["advantages computed"] >= graph
    assert released["connector returned"] == ours["connector returned"] == 0
    assert ours["values computed"] < graph / 100


@pytest.mark.slow
def test_the_graphs_of_several_policies_add_up(rllib):
    one_policy, three_policies = (
        {way: rllib.run(workloads.value_pass, "nature", 50, 10, way, modules=count)["peak"] for way in WAYS}
        for count in (1, 3)
    )
    assert three_policies["released"] == pytest.approx(3 * one_policy["released"], rel=0.1)
    assert three_policies["chunked"] == pytest.approx(one_policy["chunked"], rel=0.1)


@pytest.mark.slow
def test_the_old_stack_needs_less_than_half(rllib):
    old = rllib.run(old_stack.update_peak, 1_200, 120)
    released, ours = (rllib.run(workloads.update_peak, "recurrent", 1_200, 120, way) for way in WAYS)
    assert released > 2 * old > ours


@pytest.mark.slow
def test_a_card_that_stops_the_release_takes_ours(rllib):
    released, ours = (rllib.run(workloads.fits, "nature", 256, 8, way, 0.06) for way in WAYS)
    assert not released["fits"] and any("compute_values" in line for line in released["trace"])
    assert ours["fits"]


@pytest.fixture
def without_rllib(tmp_path, monkeypatch):
    def missing(_):
        raise metadata.PackageNotFoundError("ray")

    this_machine()  # remembers the versions, for other tests too
    monkeypatch.setattr(metadata, "version", missing)
    bench = Bench(value_pass, profile="tiny", device="cpu", seed=0, out=tmp_path)
    measure.start(bench)
    return bench


def test_the_chapter_says_that_rllib_is_missing(without_rllib):
    assert "no package 'ray'" in measure.peak_by_rows(without_rllib)
    for make_output in (plots.plot_thread, plots.plot_peak_against_rows, tables.largest_batch, tables.differences_list):
        assert isinstance(make_output(without_rllib.records), Note)
    assert {claim.verdict(without_rllib.records).outcome for claim in CLAIMS} == {"not testable here"}
