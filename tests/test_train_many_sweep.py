"""train_many's GPUs, time limits, edited functions, and clusters that lose and gain nodes."""

import math
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlrepro.fixes import train_many

QUIET = {"progress": False}


def function_of(source: str, tmp_path):
    """A function defined in a script of this source."""
    names = {"__name__": "__main__"}
    script = tmp_path / f"script-{len(list(tmp_path.iterdir()))}.py"
    script.write_text(source)
    exec(compile(source, str(script), "exec"), names)
    return names["fn"]


@pytest.mark.slow
def test_an_edited_function_is_computed_again_with_a_warning(tmp_path):
    double, triple = (function_of(f"def fn(x):\n    return x * {k}\n", tmp_path) for k in (2, 3))
    options = {"resume": tmp_path / "results", "n_jobs": 1, **QUIET}
    assert train_many(double, [{"x": 2}], **options)[0].value == 4
    with pytest.warns(UserWarning, match="1 results in .* come from different code of fn"):
        (outcome,) = train_many(triple, [{"x": 2}], **options)
    assert outcome.value == 6 and len(list((tmp_path / "results").glob("*.pickle"))) == 2
    assert train_many(double, [{"x": 2}], **options)[0].seed == outcome.seed


def wait_or_die(fault):
    time.sleep(0.5)
    if fault == "die":
        os.kill(os.getpid(), 9)
    if fault == "hang":
        time.sleep(300)
    return fault


@pytest.mark.slow
def test_a_run_is_ended_after_its_time(tmp_path):
    first, second = train_many(
        wait_or_die, [{"fault": fault} for fault in ("hang", "fine")], n_jobs=1, timeout=2, **QUIET
    )
    assert first.error == "this training run was ended after timeout=2 seconds" and 2 <= first.seconds < 4
    assert second.value == "fine"


@pytest.mark.slow
def test_the_error_of_a_killed_run_has_its_signal_and_duration():
    (outcome,) = train_many(wait_or_die, [{"fault": "die"}], n_jobs=1, **QUIET)
    assert "was killed (SIGKILL(-9)); if memory ran out" in outcome.error and "faulthandler" not in outcome.error
    assert 0.5 <= outcome.seconds < 1


def cards(x):
    time.sleep(0.3)
    return os.environ["CUDA_VISIBLE_DEVICES"]


def make_cards(folder, monkeypatch, count):
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nseq 0 {count - 1}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.slow
@pytest.mark.parametrize("gpus, expected", [(1, {"0", "1"}), (0.5, {"0", "1"}), (2, {"0,1"})])
def test_each_run_sees_its_card(gpus, expected, tmp_path, monkeypatch):
    make_cards(tmp_path, monkeypatch, 2)
    outcomes = train_many(cards, [{"x": x} for x in range(4)], n_jobs=2, gpus=gpus, **QUIET)
    assert {outcome.value for outcome in outcomes} == expected


@pytest.mark.parametrize("hides_cards", [False, True])
def test_without_a_card_nothing_starts(hides_cards, tmp_path, monkeypatch):
    if hides_cards:
        make_cards(tmp_path, monkeypatch, 2)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="gpus=1, but this process may use 0 NVIDIA GPUs"):
        train_many(cards, [{"x": 1}], gpus=1, resume=tmp_path / "results", **QUIET)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("wrong", [{"gpus": 0}, {"gpus": 1.5}, {"timeout": 0}, {"timeout": math.inf}, {"retries": -1}])
def test_a_wrong_number_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        train_many(cards, [{"x": 1}], **wrong, **QUIET)


def note_and_hang(folder, seconds):
    with open(f"{folder}/{seconds}", "a") as file:  # noqa: PTH123
        file.write("called\n")
    time.sleep(seconds)
    return seconds


@pytest.mark.timing
def test_on_ray_too_a_run_is_ended_after_its_time_and_not_tried_again(tmp_path):
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    ray.init(address="local", num_cpus=1, log_to_driver=False, include_dashboard=False)
    configs = [{"folder": str(tmp_path), "seconds": seconds} for seconds in (2.5, 300, 2)]
    try:  # one at a time, so that the last one waits longer than the time of a run
        outcomes = train_many(note_and_hang, configs, backend="ray", timeout=4, retries=2, **QUIET)
    finally:
        ray.shutdown()
    assert [outcome.value for outcome in outcomes] == [2.5, None, 2]
    assert outcomes[1].error == "this training run was ended after timeout=4 seconds" and 3.8 <= outcomes[1].seconds < 8
    assert (tmp_path / "300").read_text() == "called\n"


def note_and_wait(x, folder):
    with open(f"{folder}/{x}", "a") as file:  # noqa: PTH123
        file.write("called\n")
    time.sleep(1)
    return x


@pytest.fixture
def ray_folder(monkeypatch):
    """A folder of its own for Ray, so that other tests do not find this test's cluster."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # of a short path, for Ray's sockets
        monkeypatch.setenv("RAY_TMPDIR", folder)
        yield


@pytest.mark.slow
def test_a_sweep_outlives_a_node_and_uses_another(tmp_path, ray_folder):
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    lost = cluster.add_node(num_cpus=4)
    ray.init(address=cluster.address, log_to_driver=False)
    configs = [{"x": x, "folder": str(tmp_path)} for x in range(50)]
    try:
        with ThreadPoolExecutor(1) as pool:
            sweep = pool.submit(train_many, note_and_wait, configs, backend="ray", retries=2, **QUIET)
            while len(list(tmp_path.iterdir())) < 10:
                time.sleep(0.1)
            cluster.remove_node(lost, allow_graceful=False)
            cluster.add_node(num_cpus=4)
            outcomes = sweep.result()
        assert [outcome.value for outcome in outcomes] == list(range(50)), [o.error for o in outcomes if o.error]
        calls = sum(len(path.read_text().splitlines()) for path in tmp_path.iterdir())
        assert 50 < calls <= 50 + 2 * 6
        deadline = time.monotonic() + 60  # Ray notices a lost node after a while
        while (alive := sum(node["Alive"] for node in ray.nodes())) != 2 and time.monotonic() < deadline:
            time.sleep(0.5)
        assert alive == 2
    finally:
        ray.shutdown()
        cluster.shutdown()
