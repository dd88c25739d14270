"""The case of ParallelEnv's parent: what runs under the releases, and judges where a machine can't tell."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlrepro.cases import spinning_parent
from rlrepro.cases.spinning_parent import NEWEST, SLEEPING, SPINNING, workloads
from rlrepro.cases.spinning_parent.claims import SHORT
from rlrepro.evidence import Records, read_records
from rlrepro.lab import Release

from .conftest import ROOT

REFERENCE = sorted(ROOT.glob("results/*-cores-*"))[0]
CLAIMS = {claim.id: claim for claim in spinning_parent.CLAIMS}


@pytest.fixture(scope="module")
def records():
    return read_records(REFERENCE / f"{spinning_parent.CHAPTER}.jsonl")


def with_cores(records, cores):
    return Records(
        record.model_copy(update={"value": cores}) if record.name == "spinning_parent.cores" else record
        for record in records
    )


@pytest.mark.parametrize("claim_id", ["PE1", "PE2", "PE5"])
def test_one_core_can_not_tell(records, claim_id):
    assert CLAIMS[claim_id].verdict(with_cores(records, 1)).outcome == "not testable here"


@pytest.mark.parametrize("claim_id", ["PE3", "PE4"])
def test_cores_enough_for_all_can_not_tell(records, claim_id):
    assert CLAIMS[claim_id].verdict(with_cores(records, 1000)).outcome == "not testable here"


def test_ours_must_hold_for_short_steps_and_at_each_longer_length(records):
    assert CLAIMS["PE5"].verdict(records).outcome == "supported"
    lengths = {r.setting["seconds"] for r in records.where("spinning_parent.ours_ratio")}
    for slow in ({s for s in lengths if s <= SHORT}, *({s} for s in lengths if s > SHORT)):
        slowed_down = Records(
            r.model_copy(update={"value": 1.06})
            if r.name == "spinning_parent.ours_ratio" and r.setting["seconds"] in slow
            else r
            for r in records
        )
        assert CLAIMS["PE5"].verdict(slowed_down).outcome == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("version, late", [(SLEEPING, 0), (SPINNING, 1), (NEWEST, 1)])
def test_transitions_after_a_loaded_state_are_late_by_release(version, late):
    with Release(f"torchrl=={version}") as release:
        assert release.run(workloads.steps_late, "theirs") == late
        if version != SLEEPING:
            assert release.run(workloads.steps_late, "ours") == 0


@pytest.mark.slow
def test_an_older_release_is_told_that_it_needs_no_fix():
    def error():
        try:
            from rlrepro.fixes import PatientParallelEnv  # noqa: F401
        except ImportError as error:
            return str(error)

    with Release(f"torchrl=={SLEEPING}") as release:
        assert f"found {SLEEPING}" in (message := release.run(error)) and "sleeps by itself" in message


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="only Linux says who waited for a core")
def test_waiting_for_a_core_that_others_have_is_told_from_sleeping():
    endless = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * os.cpu_count())]
    try:
        busy, ran = _share(_spin, 1), _share(_spin, 1, waited=False)
        asleep = _share(time.sleep, 1)
    finally:
        for each in endless:
            each.kill()
            each.wait()
    assert busy > 0.95 > ran and asleep < 0.05


def _share(fn, seconds, *, waited=True):
    """Of the time that a call takes, how much of it is on a core; without the wait for one, if not told otherwise."""
    start, (ran, waiting) = time.perf_counter(), workloads.seconds_on_core()
    fn(seconds)
    wall, (ran_then, waiting_then) = time.perf_counter() - start, workloads.seconds_on_core()
    return (ran_then - ran) / (wall - waited * (waiting_then - waiting))


def _spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
