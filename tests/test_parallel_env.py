"""The case of ParallelEnv's parent: its workloads on the releases, and its judges on machines that can't decide."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlrepro.cases import parallel_env
from rlrepro.cases.parallel_env import NEWEST, SLEEPING, SPINNING, workloads
from rlrepro.cases.parallel_env.claims import SHORT
from rlrepro.evidence import Records, read_records
from rlrepro.lab import Release

from .conftest import REFERENCE

CLAIMS = {claim.id: claim for claim in parallel_env.CLAIMS}


@pytest.fixture(scope="module")
def records():
    return read_records(REFERENCE / f"{parallel_env.CHAPTER}.jsonl")


def with_cores(records, cores):
    return Records(
        record.model_copy(update={"value": cores}) if record.name == "parallel_env.cores" else record
        for record in records
    )


@pytest.mark.parametrize("claim_id", ["PE1", "PE2", "PE5"])
def test_one_core_is_not_enough_to_judge(records, claim_id):
    assert CLAIMS[claim_id].verdict(with_cores(records, 1)).outcome == "not testable here"


@pytest.mark.parametrize("claim_id", ["PE3", "PE4"])
def test_claims_about_busy_cores_need_few_cores(records, claim_id):
    assert CLAIMS[claim_id].verdict(with_cores(records, 1000)).outcome == "not testable here"


def test_ours_must_hold_for_short_steps_and_at_each_longer_length(records):
    assert CLAIMS["PE5"].verdict(records).outcome == "supported"
    lengths = {r.setting["seconds"] for r in records.where("parallel_env.ours_ratio")}
    for slow_lengths in ({s for s in lengths if s <= SHORT}, *({s} for s in lengths if s > SHORT)):
        slower_records = Records(
            r.model_copy(update={"value": 1.06})
            if r.name == "parallel_env.ours_ratio" and r.setting["seconds"] in slow_lengths
            else r
            for r in records
        )
        assert CLAIMS["PE5"].verdict(slower_records).outcome == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("version, late", [(SLEEPING, 0), (SPINNING, 1), (NEWEST, 1)])
def test_transitions_after_a_loaded_state_are_late_by_release(version, late):
    with Release(f"torchrl=={version}") as release:
        assert release.run(workloads.steps_late, "theirs") == late
        if version != SLEEPING:
            assert release.run(workloads.steps_late, "ours") == 0


@pytest.mark.slow
def test_an_older_release_needs_no_fix_and_the_error_says_so():
    def error():
        try:
            from rlrepro.fixes import PatientParallelEnv  # noqa: F401
        except ImportError as error:
            return str(error)

    with Release(f"torchrl=={SLEEPING}") as release:
        assert f"found {SLEEPING}" in (message := release.run(error)) and "already sleeps" in message


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="only Linux says who waited for a core")
def test_waiting_for_a_busy_core_is_distinguished_from_sleeping():
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * os.cpu_count())]
    try:
        busy, busy_with_wait = _share(_spin, 1), _share(_spin, 1, subtract_wait=False)
        asleep = _share(time.sleep, 1)
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    assert busy > 0.95 > busy_with_wait and asleep < 0.05


def _share(fn, seconds, *, subtract_wait=True):
    """The share of a call's time that it spends on a core; by default, the wait for a core does not count."""
    start, (on_core, waiting) = time.perf_counter(), workloads.seconds_on_core()
    fn(seconds)
    wall, (on_core_after, waiting_after) = time.perf_counter() - start, workloads.seconds_on_core()
    return (on_core_after - on_core) / (wall - subtract_wait * (waiting_after - waiting))


def _spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
