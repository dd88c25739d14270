"""train_many on the joblib and loky that are installed."""

import os

from . import thread_budget, train_many


def square(x):
    return x * x, int(os.environ["OMP_NUM_THREADS"])


def fail_or_die(mode):
    if mode == "raise":
        raise ValueError("as requested")
    if mode == "die":
        os._exit(9)
    return mode


def test_outcomes_come_in_the_order_of_the_configs_with_their_share_of_the_threads():
    outcomes = train_many(square, [{"x": x} for x in range(5)], n_jobs=2, progress=False)
    assert [outcome.value for outcome in outcomes] == [(x * x, thread_budget(2)) for x in range(5)]


def test_a_failed_or_killed_run_does_not_affect_the_others():
    outcomes = train_many(fail_or_die, [{"mode": mode} for mode in ("raise", "die", "fine")], n_jobs=1, progress=False)
    assert "ValueError: as requested" in outcomes[0].error and "was killed" in outcomes[1].error
    assert outcomes[2].value == "fine" and outcomes[2].error is None


def test_a_second_call_runs_only_what_is_missing(tmp_path):
    train_many(square, [{"x": 1}], n_jobs=1, resume=tmp_path, progress=False)
    mtimes = [path.stat().st_mtime_ns for path in tmp_path.glob("*.pickle")]
    train_many(square, [{"x": 1}, {"x": 2}], n_jobs=1, resume=tmp_path, progress=False)
    assert len(mtimes) == 1 and set(mtimes) < {path.stat().st_mtime_ns for path in tmp_path.glob("*.pickle")}
