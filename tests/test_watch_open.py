"""Does a watch see the open problems of the newest releases, and leave runs with a fix alone?"""

from importlib import metadata

import pytest

from rlrepro.cases.nan_scan import workloads as nan_scan
from rlrepro.cases.parallel_env import workloads as parallel_env
from rlrepro.cases.value_pass import workloads as value_pass
from rlrepro.doctor import watch
from rlrepro.doctor.live.activity import Activity
from rlrepro.doctor.live.notes import Notes, Place, Spent
from rlrepro.doctor.live.spent import NAN_SEARCH, WAIT
from rlrepro.doctor.rules.running_open import nan_search, whole_train_batch
from rlrepro.doctor.rules.running_open import parallel_env as spinning
from rlrepro.lab import Release

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
HERE = Place(__file__, 1, "test")


def watched(fn, *args, **kwargs):
    with watch(show=False) as report:
        fn(*args, **kwargs)
    return report


def messages_by_code(fn, *args, **kwargs):
    """The messages of the findings by their code."""
    return {finding.code: finding.message for finding in watched(fn, *args, **kwargs).findings}


@pytest.mark.slow
def test_the_whole_buffer_is_searched_for_nan():
    with Release("tianshou==2.0.1", environment=ONE_THREAD) as release:
        messages = release.run(messages_by_code, nan_scan.train, "SAC", stored=100_000, collects=20)
        assert sorted(messages) == ["RUN005", "RUN008"]  # the first is open too, and has no fix here
        assert "21 searches for NaN, of up to 100,0" in messages["RUN008"]
        fixed = release.run(messages_by_code, nan_scan.train, "SAC", stored=100_000, collects=20, incremental=True)
        assert list(fixed) == ["RUN005"]


def steps(wait, seconds, count):
    env = parallel_env.open_env(2, seconds, wait)
    try:
        parallel_env._steps(env, env.rand_action(), count)
    finally:
        env.close()


@pytest.mark.slow
def test_a_parent_that_spins():
    with Release("torchrl==0.14.1", environment=ONE_THREAD) as release:
        assert list(release.run(messages_by_code, steps, "theirs", 0.02, 50)) == ["RUN009"]
        assert release.run(messages_by_code, steps, "ours", 0.02, 50) == {}


def update(way, rows, minibatch):
    learner = value_pass.make_learner("nature", rows, minibatch, way)
    value_pass._update(learner, value_pass.make_episodes("nature", rows), minibatch)


@pytest.mark.slow
def test_a_value_network_that_gets_the_whole_train_batch():
    pytest.importorskip("ray.rllib.algorithms.ppo", reason="RLlib is not installed", exc_type=ImportError)
    with Release(f"ray=={metadata.version('ray')}", environment=ONE_THREAD) as release:
        ((code, message),) = release.run(messages_by_code, update, "released", 200, 16).items()
        assert release.run(messages_by_code, update, "chunked", 200, 16) == {}
    assert code == "RUN010" and message.startswith("a network got 202 timesteps at once in ray/rllib/")
    assert message.endswith("against minibatch_size 16")


def notes(name, trained=10.0, **spent):
    result = Notes()
    result.spent[name] = Spent(HERE, HERE, **spent)
    result.activities["1"] = Activity(began=1.0, ended=1.0 + trained)
    return result


@pytest.mark.parametrize(
    "calls, seconds, expected", [(10, 1.0, True), (9, 1.0, False), (10, 0.9, False), (1_000, 5.0, True)]
)
def test_a_search_matters_from_a_share_of_the_run_on(calls, seconds, expected):
    assert bool([*nan_search(notes(NAN_SEARCH, calls=calls, seconds=seconds))]) is expected


@pytest.mark.parametrize(
    "calls, seconds, awake_seconds, expected",
    [(100, 2.0, 2.0, True), (100, 2.0, 0.9, False), (9, 2.0, 2.0, False), (100, 0.5, 0.5, False)],
)
def test_a_wait_has_to_be_long_and_awake(calls, seconds, awake_seconds, expected):
    wait_notes = notes(WAIT, calls=calls, seconds=seconds, awake_seconds=awake_seconds)
    assert bool([*spinning(wait_notes)]) is expected


def test_processes_of_a_run_are_added_up(tmp_path):
    process_notes = notes(NAN_SEARCH, calls=10, seconds=1.0, most=5)
    process_notes.keep_in(tmp_path)
    process_notes.write()
    (path,) = tmp_path.glob("*.json")
    total = Notes()
    for _ in range(2):
        total.add(Notes.read(path))
    assert vars(total.spent[NAN_SEARCH]) == vars(Spent(HERE, HERE, 20, 2.0, most=5))
    assert [*whole_train_batch(total)] == []
