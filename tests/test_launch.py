"""The launchers of many training runs: which run waits for which, and the measurements."""

import json
from types import SimpleNamespace

import pytest

from rlrepro.cases.parallel_training import launch, training

from .test_parallel_training import SMALLEST


def test_a_script_that_fails_says_why(monkeypatch):
    failed = SimpleNamespace(returncode=1, stderr="TypeError: a hopper has no wings")
    monkeypatch.setattr(launch.subprocess, "run", lambda command, **options: failed)
    with pytest.raises(RuntimeError, match=r"a training run failed:\n.*no wings"):
        launch.scripts([SMALLEST])


def test_one_script_runs_alone_before_all_run_together(monkeypatch):
    started = []

    def run(command, **options):
        started.append(json.loads(command[-1]))
        results = [{"began": config["seed"], "ended": config["marks"], "step": 1.0} for config in started[-1]]
        return SimpleNamespace(returncode=0, stdout=json.dumps(results))

    monkeypatch.setattr(launch.subprocess, "run", run)
    alone, together = launch.scripts([SMALLEST | {"seed": seed} for seed in range(3)])
    marks = {runs[0]["seed"]: [config["marks"] for config in runs] for runs in started}
    assert marks == {0: [3, 4], 1: [4], 2: [4]}  # marks: every run is ready; the lone run has also ended
    assert alone == {"step": 1.0, "span": 3, "samples": {"step": [1.0]}}
    assert together == {"step": 1.0, "span": 4, "samples": {"step": [1.0] * 3}}


@pytest.mark.filterwarnings("ignore:You have specified a mini.batch size")
def test_a_run_waits_for_the_others_and_marks_its_end(tmp_path):
    (tmp_path / "other").touch()
    training.train(**SMALLEST, barrier=str(tmp_path), marks=2)
    assert len(list(tmp_path.iterdir())) == 3


def test_runs_that_wait_give_up(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "READY_SECONDS", 0.1)
    with pytest.raises(TimeoutError, match=r"2 training runs to start \(1 are ready\)"):
        training._wait_at(str(tmp_path), 2)


def test_a_long_call_is_measured_in_parts():
    """Four runs on two cores, of 1 and of 3 seconds: the first two end at 1 and 3."""
    ends = {1.0: 1.0, 3.0: 3.0, 4.0: 3.0, 6.0: 3.0}
    outcomes = [SimpleNamespace(value={"ended": 10 + end}, seconds=seconds) for end, seconds in ends.items()]
    assert launch._parts(outcomes[::-1], 10.0, 2) == [(2, 3.0, 4.0), (2, 3.0, 6.0)]
    assert launch._parts(outcomes[:3], 10.0, 2) == [(2, 3.0, 4.0)] and launch._parts(outcomes[:1], 10.0, 2) == []


def test_on_a_gpu_the_most_that_was_held_counts():
    results = [{"began": 0.0, "ended": 2.0, "step": 1.0, "device_bytes": 5}, {"began": 1.0, "ended": 4.0, "step": 3.0}]
    measured = launch.summary([results[0], results[1] | {"device_bytes": 2}])
    samples = {"step": [1.0, 3.0], "device_bytes": [5, 2]}
    assert measured == {"step": 2.0, "device_bytes": 5, "span": 4.0, "samples": samples}
    assert launch.summary([result | {"device_bytes": 0} for result in results])["device_bytes"] == 0
