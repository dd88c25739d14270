"""The number of threads that each of several processes may have."""

import os
import subprocess
import sys

import pytest
import torch
from threadpoolctl import threadpool_info

from rlrepro.fixes import limit_threads, thread_budget, thread_variables

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.mark.parametrize("n_jobs", [1, 2, 3, CORES, 4 * CORES])
def test_all_together_have_no_more_threads_than_there_are_cores(n_jobs):
    assert n_jobs * thread_budget(n_jobs) <= max(CORES, n_jobs)
    assert thread_budget(n_jobs) >= 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_process_that_may_use_one_core_has_one_thread():
    script = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from rlrepro.fixes import thread_budget;"
        "print(thread_budget(1), os.cpu_count())"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout.split() == ["1", str(os.cpu_count())]


@pytest.mark.parametrize("n_jobs", [0, -1, 1.5, True, None, "2"])
def test_an_invalid_number_of_jobs_is_refused(n_jobs):
    with pytest.raises(ValueError, match=f"n_jobs must be a whole number of 1 or more, found {n_jobs!r}"):
        thread_budget(n_jobs)


@pytest.mark.slow
def test_variables_reach_each_library_of_a_process_that_is_started():
    script = (
        "import numpy, torch; from threadpoolctl import threadpool_info;"
        "print(torch.get_num_threads(), *(each['num_threads'] for each in threadpool_info()))"
    )
    for threads in {1, CORES}:
        environment = os.environ | thread_variables(threads)
        completed = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
        )
        assert set(completed.stdout.split()) == {str(threads)}


def test_libraries_that_are_loaded_are_limited_too():
    before = torch.get_num_threads()
    try:
        limit_threads(1)
        assert torch.get_num_threads() == 1
        assert {library["num_threads"] for library in threadpool_info()} == {1}
    finally:
        limit_threads(before)
