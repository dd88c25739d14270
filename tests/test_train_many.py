"""train_many: its return values, and the failures that it survives."""

import os
import random
import re
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from rlrepro.fixes import TrainingFailed, thread_budget, train_many

QUIET = {"progress": False}


def square(x):
    return x * x


def step_in_processes():
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv

    envs = make_vec_env("CartPole-v1", 2, vec_env_cls=SubprocVecEnv)
    try:
        return len(envs.reset())
    finally:
        envs.close()


def threads():
    import threadpoolctl

    return {torch.get_num_threads(), *(library["num_threads"] for library in threadpoolctl.threadpool_info())}


def draw(x, seed):
    return x, seed, random.random(), np.random.rand(), torch.rand(1).item()


def train_ppo(seed):
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=2, seed=seed, device="cpu").learn(128)
    return torch.nn.utils.parameters_to_vector(model.policy.parameters()).detach().numpy()


def misbehave(fault):
    if fault == "raise":
        raise RuntimeError("the robot fell over")
    if fault == "exit":
        sys.exit(3)
    if fault == "be killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "return what can't be pickled":
        return (x for x in ())
    if fault == "be slow":
        time.sleep(1.0)
    return fault


def step_badly():
    import gymnasium as gym

    class Broken(gym.Wrapper):
        def step(self, action):
            raise FloatingPointError("joint 3 is not a number")

    env = Broken(gym.make("Pendulum-v1"))
    env.reset()
    env.step(env.action_space.sample())


def note(folder, name):
    with (Path(folder) / "calls").open("a") as file:
        file.write(f"{name}\n")
    if (Path(folder) / f"fail-{name}").exists():
        raise RuntimeError("as requested")
    return name


def calls(folder):
    path = Path(folder) / "calls"
    return sorted(path.read_text().split()) if path.exists() else []


@pytest.mark.slow
def test_outcomes_come_in_the_order_of_the_configs():
    configs = [{"x": x} for x in range(7)]
    outcomes = train_many(square, configs, n_jobs=3, **QUIET)
    assert [outcome.value for outcome in outcomes] == [x * x for x in range(7)]
    assert [outcome.config for outcome in outcomes] == configs
    assert all(outcome.error is None and outcome.seconds >= 0 for outcome in outcomes)
    assert train_many(square, [], **QUIET) == []


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_each_process_has_its_share_of_the_threads(n_jobs):
    (outcome,) = train_many(threads, [{}], n_jobs=n_jobs, **QUIET)
    assert outcome.value == {thread_budget(n_jobs)}
    (outcome,) = train_many(threads, [{}], n_jobs=n_jobs, threads=1, **QUIET)
    assert outcome.value == {1}


@pytest.mark.slow
def test_results_do_not_depend_on_n_jobs():
    configs = [{"x": x} for x in range(6)]
    serial, parallel = (train_many(draw, configs, n_jobs=n_jobs, **QUIET) for n_jobs in (1, 3))
    assert [outcome.value for outcome in serial] == [outcome.value for outcome in parallel]
    assert len({outcome.seed for outcome in serial}) == 6
    assert [outcome.value[1] for outcome in serial] == [outcome.seed for outcome in serial]
    other_seed = train_many(draw, configs, n_jobs=2, seed=1, **QUIET)
    assert not {outcome.seed for outcome in other_seed} & {outcome.seed for outcome in serial}


@pytest.mark.slow
def test_a_seed_in_the_config_is_kept_and_equal_configs_get_two_seeds():
    (outcome,) = train_many(draw, [{"x": 0, "seed": 7}], n_jobs=1, **QUIET)
    assert outcome.value[1] == 7
    first, second = train_many(draw, [{"x": 0}, {"x": 0}], n_jobs=1, **QUIET)
    assert first.value != second.value


@pytest.mark.slow
def test_ppo_learns_the_same_weights_beside_other_runs():
    configs = [{"seed": seed} for seed in range(3)]
    serial, parallel = (train_many(train_ppo, configs, n_jobs=n_jobs, threads=1, **QUIET) for n_jobs in (1, 3))
    for expected, actual in zip(serial, parallel, strict=True):
        assert np.array_equal(expected.value, actual.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault, message",
    [
        ("raise", "RuntimeError: the robot fell over"),
        ("exit", "SystemExit: 3"),
        ("be killed", r"was killed.*SIGKILL"),
        ("return what can't be pickled", "generator"),
    ],
)
def test_a_failure_ends_one_run_and_no_other(fault, message):
    faults = [fault, "be slow", fault, "be slow", "be slow"]
    outcomes = train_many(misbehave, [{"fault": requested} for requested in faults], n_jobs=2, **QUIET)
    for requested, outcome in zip(faults, outcomes, strict=True):
        if requested == fault:
            assert outcome.value is None
            assert re.search(message, outcome.error)
        else:
            assert (outcome.value, outcome.error) == (requested, None)


class Returned:
    """A value that a run returns and this process refuses to unpickle."""

    def __reduce__(self):
        return refuse, (os.getpid(),)


def refuse(pid):
    if pid != os.getpid():
        raise LookupError("made in another process")
    return Returned()


def return_what_is_refused(x):
    return Returned() if x == 1 else x


@pytest.mark.slow
def test_a_value_that_can_not_be_unpickled_is_an_error_of_its_own_run():
    first, second = train_many(return_what_is_refused, [{"x": 1}, {"x": 2}], n_jobs=1, **QUIET)
    assert first.value is None and "LookupError: made in another process" in first.error
    assert (second.value, second.error) == (2, None)


@pytest.mark.slow
def test_a_value_that_can_not_be_unpickled_is_a_failure_and_not_kept(tmp_path):
    with pytest.raises(TrainingFailed, match="made in another process"):
        train_many(return_what_is_refused, [{"x": 1}], on_error="raise", resume=tmp_path, n_jobs=1, **QUIET)
    assert not list(tmp_path.glob("*.pickle"))


@pytest.mark.slow
def test_a_run_may_start_processes_of_its_own():
    (outcome,) = train_many(step_in_processes, [{}], n_jobs=1, **QUIET)
    assert outcome.error is None and outcome.value == 2


@pytest.mark.slow
def test_an_environment_that_raises_is_reported_with_its_traceback():
    (outcome,) = train_many(step_badly, [{}], n_jobs=1, **QUIET)
    assert "joint 3 is not a number" in outcome.error and "in step\n" in outcome.error


@pytest.mark.slow
def test_progress_shows_a_failure_at_once(capfd):
    train_many(misbehave, [{"fault": "raise"}, {"fault": "fine"}], n_jobs=1)
    output = capfd.readouterr().err
    assert "failed: {'fault': 'raise'}: RuntimeError: the robot fell over" in output and "2/2" in output


@pytest.mark.slow
def test_the_first_failure_can_end_the_run(tmp_path):
    configs = [{"fault": "fine"}, {"fault": "raise"}, *({"fault": "be slow", "x": x} for x in range(50))]
    with pytest.raises(TrainingFailed, match=r"'fault': 'raise'(?s:.)*the robot fell over") as raised:
        train_many(misbehave, configs, n_jobs=1, on_error="raise", resume=tmp_path, **QUIET)
    assert len(list(tmp_path.glob("*.pickle"))) < 10  # of 51 that would have succeeded
    assert str(tmp_path) in raised.value.__notes__[0]


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"n_jobs": 0}, "n_jobs must be a whole number of 1 or more, found 0"),
        ({"n_jobs": -1}, "n_jobs must be"),
        ({"threads": 0}, "threads must be"),
        ({"n_jobs": 1.5}, "n_jobs must be a whole number"),
        ({"backend": "dask"}, r"backend must be one of \('loky', 'ray'\).*'dask'"),
        ({"on_error": "ignore"}, "on_error of .*'ignore'"),
    ],
)
def test_a_wrong_option_or_number_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        train_many(square, [{"x": 1}], **wrong, **QUIET)


def test_a_config_that_can_not_be_sent_is_named_before_anything_runs(tmp_path):
    configs = [{"folder": str(tmp_path), "name": "a"}, {"folder": str(tmp_path), "name": (x for x in ())}]
    with pytest.raises(ValueError, match=r"config 1 can't be used: .*generator"):
        train_many(note, configs, **QUIET)
    with pytest.raises(ValueError, match=r"config 0 can't be used.*a copy of it has another digest"):
        train_many(square, [{"x": torch.ones(3)}], **QUIET)
    with pytest.raises(ValueError, match="config 0 must map names"):
        train_many(note, ["a"], **QUIET)
    assert calls(tmp_path) == []


@pytest.mark.slow
def test_a_call_that_succeeds_causes_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_many(square, [{"x": 1}], n_jobs=1, **QUIET)
