"""rlrepro doctor --try: it runs a command again with a fix in its environment, and compares the speed of the runs."""

import re
import sys

import pytest

from rlrepro.doctor.live.activity import LEARNS, Activity
from rlrepro.doctor.live.notes import Notes
from rlrepro.doctor.live.progress import NothingToCompare, Progress, compare
from rlrepro.doctor.live.report import Report
from rlrepro.doctor.live.thread_stats import Crowd
from rlrepro.doctor.live.trial import ASLEEP, LEAST_SECONDS, Trial, try_variants, variants, why_not
from rlrepro.fixes import thread_budget

several_cores = pytest.mark.skipif(thread_budget(1) < 2, reason="with one core, torch has one thread")


def notes(*activities, threads=2):
    result = Notes(torch_threads={"1": threads})
    result.activities = {str(index): activity for index, activity in enumerate(activities)}
    return result


def activity(began, ended, learning, *, gradients=0, steps=0, samples=0):
    counts = {LEARNS: gradients, "environment steps": steps, "buffer samples": samples}
    other = ended - began - learning
    return Activity(began, ended, [0.0, 0.0, learning, 0.0, other], counts={k: n for k, n in counts.items() if n})


def report(*activities, cores=2, threads=2):
    watched = Report("train.py", None)
    watched.notes, watched.crowd = notes(*activities, threads=threads), Crowd(cores=cores)
    return watched


# What is compared.


def test_the_same_work_in_a_third_of_the_time():
    before = notes(*[activity(1.0, 31.0, 27.0, gradients=100, steps=500) for _ in range(4)])
    after = notes(*[activity(1.0, 11.0, 9.0, gradients=100, steps=500) for _ in range(4)])
    unit, slow, fast = compare(before, after)
    assert unit == LEARNS and slow == pytest.approx(400 / 30) and fast == pytest.approx(400 / 10)


def test_a_run_that_was_ended_while_it_collected_is_not_taken_for_a_slow_learner():
    """A rollout takes 30 s and learning 20 s; the interrupted run has only reached the first gradient steps."""
    complete = notes(activity(1.0, 51.0, 20.0, gradients=200, steps=3000))
    interrupted = notes(activity(1.0, 33.0, 2.0, gradients=20, steps=3000))
    _, slow, fast = compare(interrupted, complete)
    assert fast / slow == pytest.approx(1.0)


def test_imports_between_two_processes_do_not_count():
    progress = Progress.of(notes(activity(10.0, 20.0, 5.0, gradients=5), activity(50.0, 60.0, 5.0, gradients=5)))
    assert progress.seconds == 20.0 and progress.rate(LEARNS) == 0.5 and progress.processes == 1


def test_workers_that_step_environments_are_not_trainings():
    worker = Activity(1.0, 11.0, [10.0, 0.0, 0.0, 0.0, 0.0], counts={"environment steps": 999})
    progress = Progress.of(notes(worker, activity(1.0, 11.0, 5.0, gradients=7, steps=50)))
    assert progress.completed.counts == {LEARNS: 7, "environment steps": 50}
    assert progress.busy_seconds == pytest.approx(10.0)


def test_without_gradient_steps_the_most_expensive_kind_of_work_is_counted():
    sampling = Activity(0.5, 11.0, [1.0, 0.0, 0.0, 9.0, 0.0], counts={"environment steps": 5, "buffer samples": 90})
    assert Progress.of(notes(sampling)).unit() == "buffer samples"
    with pytest.raises(NothingToCompare, match="nothing"):
        compare(notes(sampling), notes())


# What is tried.


@pytest.mark.parametrize(
    "processes, cores, threads, budget",
    [(4, 2, 2, "1"), (2, 8, 8, "4"), (1, 8, 8, "1"), (2, 8, 4, "1"), (2, 8, 1, None)],
)
def test_the_threads_that_are_tried(processes, cores, threads, budget):
    watched = report(*[activity(1.0, 2.0, 1.0, gradients=3)] * processes, cores=cores, threads=threads)
    tried = variants(watched)
    if budget is None:
        assert not tried and "already has one thread" in why_not(watched)
    else:
        assert tried == [{"OMP_NUM_THREADS": budget, "MKL_NUM_THREADS": budget}, ASLEEP]


def test_a_run_without_training_is_not_tried():
    assert variants(report()) == [] and "no gradient step" in why_not(report())


@pytest.mark.parametrize(
    "after, words",
    [(230.0, "23 times as many gradient steps"), (10.5, "about as many"), (5.0, "0.5 times as many gradient steps")],
)
def test_a_trial_in_words(after, words):
    assert f"OMP_NUM_THREADS=1: {words}" in str(Trial({"OMP_NUM_THREADS": "1"}, LEARNS, (10.0,), after))


def test_unchanged_runs_that_differ():
    wide = Trial({"OMP_NUM_THREADS": "1"}, LEARNS, (10.0, 40.0), 200.0)
    assert wide.ratio == pytest.approx(10.0)
    assert "10 times as many gradient steps per second (10 and 40, now 200)" in str(wide)
    assert "about as many" in str(Trial({"OMP_NUM_THREADS": "1"}, LEARNS, (10.0, 40.0), 39.0))


def test_the_command_runs_unchanged_before_and_after(monkeypatch):
    environments = []

    def run(command, *, environment, **options):
        environments.append(environment)
        return report(activity(1.0, 2.0, 1.0, gradients=40 if environment else 20)), 0

    monkeypatch.setattr("rlrepro.doctor.live.trial.run", run)
    trials = try_variants(["train"], report(activity(1.0, 2.0, 1.0, gradients=5)))
    assert [bool(environment) for environment in environments] == [True, True, False]
    assert [trial.ratio for trial in trials] == pytest.approx([4.0, 4.0])  # to 5 and 20


@pytest.mark.parametrize("last", [(report(), 0), (report(activity(1.0, 2.0, 1.0, gradients=20)), 1)])
def test_a_last_run_that_failed_or_has_no_speed_is_left_out(monkeypatch, last):
    fixed = report(activity(1.0, 2.0, 1.0, gradients=40)), 0
    monkeypatch.setattr("rlrepro.doctor.live.trial.run", lambda *_, environment, **__: fixed if environment else last)
    trials = try_variants(["train"], report(activity(1.0, 2.0, 1.0, gradients=5)))
    assert [trial.ratio for trial in trials] == pytest.approx([8.0, 8.0])


# Commands.

LEARN = """\
import sys, time
import torch

{first}
network = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
began = time.perf_counter()
for _ in range({steps}):
    time.sleep(0.02 * torch.get_num_threads() ** 2)  # as slow as threads that wait for each other
    network(torch.ones(4, 8)).sum().backward()
    optimizer.step()
print("by itself", {steps} / (time.perf_counter() - began))
"""


@several_cores
@pytest.mark.timing
def test_the_ratio_is_that_of_the_scripts_own_clock(tmp_path, run_cli, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (tmp_path / "train.py").write_text(LEARN.format(first="", steps=25))
    result = run_cli("doctor", "--try", "--", sys.executable, "train.py")
    assert result.returncode == 0, result.stderr
    alone, fixed, asleep, last = (float(rate) for rate in re.findall(r"by itself ([\d.]+)", result.stdout))
    ratios = {name: float(ratio) for name, ratio in re.findall(r"tried +(\w+)=.*: ([\d.]+) times", result.stdout)}
    assert ratios["OMP_NUM_THREADS"] == pytest.approx(fixed / (alone * last) ** 0.5, rel=0.2)
    assert fixed / alone > 3
    assert "OMP_WAIT_POLICY" not in ratios or asleep / alone > 1.1
    assert "gradient steps per second" in result.stdout and "between unchanged runs" in result.stdout


@pytest.mark.slow
def test_threads_that_a_program_sets_itself(tmp_path):
    (tmp_path / "train.py").write_text(LEARN.format(first="torch.set_num_threads(3)", steps=5))
    watched = report(activity(1.0, 2.0, 1.0, gradients=30), threads=3)
    trial, _ = try_variants([sys.executable, "train.py"], watched, folder=tmp_path)
    assert "had no effect: a process had 3 threads" in str(trial)


@pytest.mark.slow
def test_a_command_that_fails_is_not_tried(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(LEARN.format(first="", steps=5) + "sys.exit(3)\n")
    result = run_cli("doctor", "--try", "--", sys.executable, "train.py")
    assert result.returncode == 3 and "failed with status 3" in result.stdout and result.stdout.count("by itself") == 1
    result = run_cli("doctor", "--try", "--", sys.executable, "-c", "print('nothing here')")
    assert result.returncode == 0 and "nothing to try" in result.stdout and result.stdout.count("nothing here") == 1


@pytest.mark.slow
def test_a_fix_that_breaks_the_command_is_reported(tmp_path):
    failing = "import os\nassert 'GOMP_SPINCOUNT' not in os.environ\n"
    (tmp_path / "train.py").write_text(LEARN.format(first="", steps=5) + failing)
    watched = report(activity(1.0, 2.0, 1.0, gradients=5))
    threads, asleep = try_variants([sys.executable, "train.py"], watched, folder=tmp_path)
    assert threads.ratio > 0 and asleep.unit is None and "failed with status 1" in str(asleep)


@pytest.mark.parametrize(
    "requested, duration, limit", [(None, 100.0, 100.0), (None, 2.0, LEAST_SECONDS), (60.0, 5.0, 60.0)]
)
def test_each_run_is_limited(monkeypatch, requested, duration, limit):
    limits = []

    def run(command, *, seconds, **options):
        limits.append(seconds)
        return report(activity(1.0, 2.0, 1.0, gradients=10)), 0

    monkeypatch.setattr("rlrepro.doctor.live.trial.run", run)
    watched = report(activity(1.0, 2.0, 1.0, gradients=5))
    watched.seconds = duration
    try_variants(["train"], watched, seconds=requested)
    assert limits == [limit] * 3
