"""train_many on the joblib and loky that are installed."""

import os

from . import thread_budget, train_many


def square(x):
    return x * x, int(os.environ["OMP_NUM_THREADS"])


def fail_or_die(how):
    if how == "raise":
        raise ValueError("as asked")
    if how == "die":
        os._exit(9)
    return how


def test_outcomes_come_in_the_order_of_the_configs_with_their_share_of_the_threads():
    outcomes = train_many(square, [{"x": x} for x in range(5)], n_jobs=2, progress=False)
    assert [outcome.value for outcome in outcomes] == [(x * x, thread_budget(2)) for x in range(5)]


def test_what_fails_or_is_killed_ends_alone():
    outcomes = train_many(fail_or_die, [{"how": how} for how in ("raise", "die", "fine")], n_jobs=1, progress=False)
    assert "ValueError: as asked" in outcomes[0].error and "was killed" in outcomes[1].error
    assert outcomes[2].value == "fine" and outcomes[2].error is None


def test_a_second_call_does_what_is_missing(tmp_path):
    train_many(square, [{"x": 1}], n_jobs=1, resume=tmp_path, progress=False)
    written = [path.stat().st_mtime_ns for path in tmp_path.glob("*.pickle")]
    train_many(square, [{"x": 1}, {"x": 2}], n_jobs=1, resume=tmp_path, progress=False)
    assert len(written) == 1 and set(written) < {path.stat().st_mtime_ns for path in tmp_path.glob("*.pickle")}
