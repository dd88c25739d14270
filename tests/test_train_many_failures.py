"""What train_many and sweep print about configs that fail."""

import multiprocessing
import re
import traceback

import gymnasium as gym
import pytest

from rlrepro.fixes import Outcome, TrainingFailed, sweep, table, train_many
from rlrepro.fixes.train_many.failures import reason

SIZES = {"n_steps": 64, "n_epochs": 1}


def refuse(name, data):
    raise RuntimeError(f"no {name}\nas requested")


def test_the_reason_is_the_line_that_names_the_error():
    error = ArithmeticError("not finite: tensor([[0.],\n        [nan]])\nas found")
    if hasattr(error, "add_note"):
        error.add_note("Raised in step() of the environment of member 0.")
    try:
        try:
            refuse("model", None)
        except RuntimeError:
            raise error  # noqa: B904, for the traceback of both
    except ArithmeticError:
        text = traceback.format_exc()
    assert reason(text) == "ArithmeticError: not finite: tensor([[0.],"
    assert reason("what it returned can't be read:\n" + text) == "ArithmeticError: not finite: tensor([[0.],"
    assert reason("the process was killed\n") == "the process was killed"
    ended = Outcome({}, None, text, 1.0, 0)
    assert table([ended])["error"].tolist() == ["ArithmeticError: not finite: tensor([[0.],"]


@pytest.mark.slow
def test_a_long_config_is_cut(capfd):
    config = {"name": "first", "data": bytes(10_000)}
    train_many(refuse, [config], n_jobs=1)
    output = capfd.readouterr().err
    (line,) = re.findall("failed: .*", output)
    assert line.startswith("failed: {'name': 'first', 'data': b'") and line.endswith("...: RuntimeError: no first")
    assert len(line) < 240 and "refuse" in output
    with pytest.raises(TrainingFailed, match=r"the run with \{'name': 'first', .{,200}\.\.\. failed:\n"):
        train_many(refuse, [config], n_jobs=1, on_error="raise", progress=False)


def broken_environment():
    raise OSError("no such robot")


def fatal_environment():
    import os

    os._exit(7)


@pytest.mark.slow
def test_sweep_prints_each_config_that_fails_once(capfd):
    envs = [broken_environment, lambda: gym.make("Pendulum-v1"), "Pendulum-v1"]
    configs = [{"env": env, "learning_rate": 10.0**-index, **SIZES} for index, env in enumerate(envs)]
    outcomes = sweep([*configs, {"env": fatal_environment, **SIZES, "use_sde": True}], 64, n_jobs=1)
    assert [outcome.error is None for outcome in outcomes] == [False, True, True, False]
    output = capfd.readouterr().err
    lines = re.findall("failed: .*", output)
    assert len(lines) == 2 and "payload" not in output and "run_task" not in output and "sweep" in output
    (broken,) = (line for line in lines if "OSError: no such robot" in line)
    assert "'learning_rate': 1.0" in broken and "broken_environment" in broken
    (fatal,) = (line for line in lines if "was killed" in line)
    assert "'use_sde': True" in fatal


@pytest.mark.slow
def test_sweep_prints_nothing_without_progress(capfd):
    sweep([{"env": broken_environment, **SIZES}], 64, n_jobs=1, progress=False)
    assert "failed" not in capfd.readouterr().err


def test_a_config_that_only_a_child_process_could_inherit_is_named():
    with pytest.raises(ValueError, match=r"config 0 can't be used: Lock objects"):
        train_many(refuse, [{"name": "a", "data": multiprocessing.Lock()}], progress=False)


def test_the_reason_of_a_group_of_errors_is_its_message():
    try:
        raise ExceptionGroup("two environments failed", [ValueError("a"), OSError("b")])
    except Exception:
        text = traceback.format_exc()
    assert reason(text) == "ExceptionGroup: two environments failed (2 sub-exceptions)"
