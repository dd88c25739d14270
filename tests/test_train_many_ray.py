"""train_many on Ray."""

import multiprocessing
import sys
import time

import pytest

from rlrepro.fixes import train_many

from .test_train_many import QUIET, draw, misbehave, square, threads


@pytest.fixture(scope="module")
def local_ray():
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_ray_gives_the_same_results_as_loky(local_ray):
    configs = [{"x": x} for x in range(4)]
    by_ray, by_loky = (train_many(draw, configs, n_jobs=2, backend=backend, **QUIET) for backend in ("ray", "loky"))
    assert [outcome.value for outcome in by_ray] == [outcome.value for outcome in by_loky]
    assert train_many(threads, [{}], backend="ray", **QUIET)[0].value == {1}
    assert local_ray.is_initialized()  # it was not started by train_many


@pytest.mark.slow
def test_ray_survives_the_same_faults_as_loky(local_ray):
    faults = ["raise", "be killed", "be slow", "exit"]
    outcomes = train_many(misbehave, [{"fault": fault} for fault in faults], n_jobs=2, backend="ray", **QUIET)
    assert [outcome.value for outcome in outcomes] == [None, None, "be slow", None]
    assert "the robot fell over" in outcomes[0].error and "Ray lost the process" in outcomes[1].error


def fork_and_hang(x):
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,)).start()
    time.sleep(600)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_ray_ends_a_run_with_what_it_has_forked(local_ray):
    start = time.monotonic()
    (outcome,) = train_many(fork_and_hang, [{"x": 1}], backend="ray", timeout=2, **QUIET)
    assert outcome.error == "this training run was ended after timeout=2 seconds" and time.monotonic() - start < 40


@pytest.mark.slow
def test_ray_says_if_no_node_has_that_many_cpus(local_ray):
    with pytest.raises(ValueError, match="no node of this cluster has 64 CPUs"):
        train_many(square, [{"x": 1}], backend="ray", threads=64, **QUIET)


def test_without_ray_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "rlrepro.fixes.train_many.ray_tasks", raising=False)
    with pytest.raises(ImportError, match="pip install ray"):
        train_many(square, [{"x": 1}], backend="ray", **QUIET)
