"""Chapter 8: its judges on made-up records, with and without the effect, and one training run of each kind."""

import pytest

from rlrepro.cases import nan_scan
from rlrepro.cases.common.bench import Bench
from rlrepro.cases.nan_scan import FIRST_BAD, LAST_GOOD, NEWEST, REPORTED_COLLECT, REPORTED_STORED, workloads

COLLECTS = 10
WITH_EFFECT = {
    "reads": {LAST_GOOD: 0, FIRST_BAD: COLLECTS, NEWEST: COLLECTS},
    "asked": {LAST_GOOD: 0, NEWEST: COLLECTS},
    "steps": {LAST_GOOD: (0.02, 0.02), NEWEST: (0.02, 0.30)},
    "rate": 5e-5,  # seconds per stored transition
    "rest": 0.1,
    "memory": 7e8,
    "error": "MalformedBufferError: NaN",
    "difference": 0.0,
}
WITHOUT = {  # what is changed, and the verdicts before and after
    "NS1": ({"reads": dict.fromkeys((LAST_GOOD, FIRST_BAD, NEWEST), 0)}, "supported", "refuted"),
    "NS2": ({"steps": dict.fromkeys((LAST_GOOD, NEWEST), (0.02, 0.02))}, "supported", "refuted"),
    "NS3": ({"rate": 5e-3}, "supported", "refuted"),
    "NS4": ({"asked": {LAST_GOOD: 0, NEWEST: 0}}, "refuted", "supported"),
    "NS5": ({"reads": dict.fromkeys((LAST_GOOD, FIRST_BAD, NEWEST), 0)}, "partly", "supported"),
    "NS6": ({"memory": 1e6}, "supported", "refuted"),
    "NS7": ({"error": None}, "supported", "refuted"),
}


def judge(claim_id, out, **changed):
    effect = WITH_EFFECT | changed
    bench = Bench(nan_scan, profile="tiny", device="cpu", seed=0, out=out)
    for requested, reads in ((None, effect["reads"]), (False, effect["asked"])):
        for release, count in reads.items():
            bench.add("whole_reads", count, release=release, asked=requested, incremental=False, collects=COLLECTS)
    for release, steps in effect["steps"].items():
        for stored, seconds in zip((1_000, 100_000), steps, strict=True):
            setting = {"release": release, "algorithm": "SAC", "stored": stored, "incremental": False}
            bench.add("step", seconds, environment_steps=1, **setting)
            bench.add("share", 0.9, **setting)
    for stored in (1_000, 4_000):
        bench.add("scan", effect["rate"] * stored, kind="frames", stored=stored)
    for stored in (1_000, REPORTED_STORED):
        bench.add("predicted", (effect["rate"] * stored + effect["rest"]) / REPORTED_COLLECT, stored=stored)
    bench.add("scan_memory", effect["memory"], kind="frames", stored=4_000, incremental=False)
    bench.add("stored_bytes", 28e6, kind="frames", stored=4_000)
    for incremental, error in ((False, WITH_EFFECT["error"]), (True, effect["error"])):
        bench.add("error", error, part="rew", incremental=incremental)
    bench.add("weight_difference", effect["difference"], algorithm="SAC", stored=100_000)
    bench.add("speedup", 10.0, algorithm="SAC", stored=100_000)
    (claim,) = (claim for claim in nan_scan.CLAIMS if claim.id == claim_id)
    return claim.verdict(bench.records).outcome


@pytest.mark.parametrize("claim_id", [claim.id for claim in nan_scan.CLAIMS])
def test_a_verdict_changes_when_its_effect_is_removed(claim_id, tmp_path):
    changed, with_effect, without = WITHOUT[claim_id]
    assert judge(claim_id, tmp_path / "with") == with_effect
    assert judge(claim_id, tmp_path / "without", **changed) == without


def test_a_search_that_takes_no_time_explains_no_slow_training(tmp_path):
    assert judge("NS3", tmp_path, rate=1e-9) == "not testable here"


def test_weights_that_differ_refute_the_fix(tmp_path):
    assert judge("NS7", tmp_path, difference=1e-9) == "refuted"


@pytest.mark.parametrize("algorithm", ["SAC", "DQN"])
def test_a_training_run_reads_its_whole_buffer_after_every_collect_but_not_with_the_fix(algorithm):
    stored, collects = 100, 3
    released, fixed = (workloads.train(algorithm, stored, collects, incremental) for incremental in (False, True))
    assert (released["whole_reads"], fixed["whole_reads"]) == (collects + 1, 1)
    assert (released["weights"] == fixed["weights"]).all()


def test_the_memory_of_a_check_grows_with_the_buffer_but_not_with_the_fix():
    peaks = {
        (stored, fix): workloads.check_memory("frames", stored, fix)["peak"]
        for stored in (100, 200)
        for fix in (False, True)
    }
    assert 1.8 < peaks[200, False] / peaks[100, False] < 2.2
    assert peaks[200, True] < 1.05 * peaks[100, True] < 16 * 2**20
