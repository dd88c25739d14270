"""train_many: what it returns, and what it survives."""

import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial, wraps
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from rlrepro.fixes import TrainingFailed, thread_budget, train_many
from rlrepro.fixes.train_many.result_folder import ResultFolder

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

    return {torch.get_num_threads(), *(each["num_threads"] for each in threadpoolctl.threadpool_info())}


def draw(x, seed):
    return x, seed, random.random(), np.random.rand(), torch.rand(1).item()


def train_ppo(seed):
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=2, seed=seed, device="cpu").learn(128)
    return torch.nn.utils.parameters_to_vector(model.policy.parameters()).detach().numpy()


def misbehave(how):
    if how == "raise":
        raise RuntimeError("the robot fell over")
    if how == "exit":
        sys.exit(3)
    if how == "be killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "return what can't be pickled":
        return (each for each in ())
    if how == "be slow":
        time.sleep(1.0)
    return how


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
        raise RuntimeError("as asked")
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
    alone, together = (train_many(draw, configs, n_jobs=n_jobs, **QUIET) for n_jobs in (1, 3))
    assert [outcome.value for outcome in alone] == [outcome.value for outcome in together]
    assert len({outcome.seed for outcome in alone}) == 6
    assert [outcome.value[1] for outcome in alone] == [outcome.seed for outcome in alone]
    other = train_many(draw, configs, n_jobs=2, seed=1, **QUIET)
    assert not {outcome.seed for outcome in other} & {outcome.seed for outcome in alone}


@pytest.mark.slow
def test_a_seed_in_the_config_is_kept_and_equal_configs_get_two_seeds():
    (outcome,) = train_many(draw, [{"x": 0, "seed": 7}], n_jobs=1, **QUIET)
    assert outcome.value[1] == 7
    first, second = train_many(draw, [{"x": 0}, {"x": 0}], n_jobs=1, **QUIET)
    assert first.value != second.value


@pytest.mark.slow
def test_a_run_of_ppo_gives_the_same_weights_whatever_runs_beside_it():
    configs = [{"seed": seed} for seed in range(3)]
    alone, together = (train_many(train_ppo, configs, n_jobs=n_jobs, threads=1, **QUIET) for n_jobs in (1, 3))
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.value, other.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how, message",
    [
        ("raise", "RuntimeError: the robot fell over"),
        ("exit", "SystemExit: 3"),
        ("be killed", r"was killed.*SIGKILL"),
        ("return what can't be pickled", "generator"),
    ],
)
def test_what_goes_wrong_ends_one_run_and_no_other(how, message):
    hows = [how, "be slow", how, "be slow", "be slow"]
    outcomes = train_many(misbehave, [{"how": each} for each in hows], n_jobs=2, **QUIET)
    for each, outcome in zip(hows, outcomes, strict=True):
        if each == how:
            assert outcome.value is None
            assert re.search(message, outcome.error)
        else:
            assert (outcome.value, outcome.error) == (each, None)


class Returned:
    """What a run returns and this process refuses."""

    def __reduce__(self):
        return refuse, (os.getpid(),)


def refuse(made_in):
    if made_in != os.getpid():
        raise LookupError("made in another process")
    return Returned()


def return_what_is_refused(x):
    return Returned() if x == 1 else x


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


def test_an_environment_that_raises_is_reported_with_its_traceback():
    (outcome,) = train_many(step_badly, [{}], n_jobs=1, **QUIET)
    assert "joint 3 is not a number" in outcome.error and "in step\n" in outcome.error


def test_progress_shows_a_failure_at_once(capfd):
    train_many(misbehave, [{"how": "raise"}, {"how": "fine"}], n_jobs=1)
    shown = capfd.readouterr().err
    assert "failed: {'how': 'raise'}: RuntimeError: the robot fell over" in shown and "2/2" in shown


def test_the_first_failure_can_end_the_run(tmp_path):
    configs = [{"how": "fine"}, {"how": "raise"}, *({"how": "be slow", "x": x} for x in range(50))]
    with pytest.raises(TrainingFailed, match=r"'how': 'raise'(?s:.)*the robot fell over") as raised:
        train_many(misbehave, configs, n_jobs=1, on_error="raise", resume=tmp_path, **QUIET)
    assert len(list(tmp_path.glob("*.pickle"))) < 10  # of 51 that would have succeeded
    assert str(tmp_path) in raised.value.__notes__[0]


@pytest.mark.slow
def test_a_second_call_does_what_is_missing(tmp_path):
    (tmp_path / "fail-b").touch()
    configs = [{"folder": str(tmp_path), "name": name} for name in "abc"]
    results = tmp_path / "results"
    first = train_many(note, configs, n_jobs=2, resume=results, **QUIET)
    assert [outcome.value for outcome in first] == ["a", None, "c"]
    (tmp_path / "fail-b").unlink()
    more = [*configs[::-1], {"folder": str(tmp_path), "name": "d"}]
    second = train_many(note, more, n_jobs=2, resume=results, **QUIET)
    assert [outcome.value for outcome in second] == ["c", "b", "a", "d"]
    assert calls(tmp_path) == ["a", "b", "b", "c", "d"]
    assert second[0].seconds == first[2].seconds


@pytest.mark.slow
def test_another_function_or_seed_is_not_taken_for_what_is_there(tmp_path):
    train_many(square, [{"x": 2}], n_jobs=1, resume=tmp_path, **QUIET)
    assert train_many(abs, [{"x": 2}], n_jobs=1, resume=tmp_path, **QUIET)[0].error is not None
    drawn = [train_many(draw, [{"x": 2}], n_jobs=1, seed=s, resume=tmp_path, **QUIET)[0].value for s in (0, 1, 0)]
    assert drawn[0] == drawn[2] != drawn[1]


class Scale:
    def by(self, x):
        return x


def twice(fn):
    @wraps(fn)
    def called(**config):
        return fn(**config) * 2

    return called


@twice
def decorated(x):
    return x


@pytest.mark.parametrize("fn", [partial(square), lambda x: x, Scale().by, twice(square)])
def test_a_function_without_a_unique_name_is_not_resumed(fn, tmp_path):
    with pytest.raises(ValueError, match="with resume, fn must be a function with a unique name"):
        train_many(fn, [{"x": 2}], resume=tmp_path, **QUIET)
    assert train_many(fn, [{"x": 2}], n_jobs=1, **QUIET)[0].error is None


@pytest.mark.parametrize("fn", [[3, 1].sort, {}.setdefault, "a-b".split, random.random, Scale().by.__call__])
def test_what_is_bound_to_an_object_is_not_resumed(fn, tmp_path):
    with pytest.raises(ValueError, match="with resume, fn must be a function with a unique name"):
        train_many(fn, [{}], resume=tmp_path, **QUIET)


@pytest.mark.slow
def test_a_decorated_function_and_a_builtin_are_resumed(tmp_path):
    for _ in range(2):
        (outcome,) = train_many(decorated, [{"x": 2}], n_jobs=1, resume=tmp_path, **QUIET)
        assert outcome.value == 4, outcome.error
    assert len(list(tmp_path.glob("*.pickle"))) == 1
    train_many(sorted, [{}], n_jobs=1, resume=tmp_path / "builtin", **QUIET)  # which fails, but not for its name


@pytest.mark.slow
def test_a_result_that_can_not_be_read_is_computed_again(tmp_path):
    configs = [{"folder": str(tmp_path), "name": "a"}]
    train_many(note, configs, n_jobs=1, resume=tmp_path / "results", **QUIET)
    (path,) = (tmp_path / "results").glob("*.pickle")
    path.write_bytes(path.read_bytes()[:5])
    with pytest.warns(UserWarning, match="can't be read"):
        (outcome,) = train_many(note, configs, n_jobs=1, resume=tmp_path / "results", **QUIET)
    assert outcome.value == "a" and calls(tmp_path) == ["a", "a"]


def test_two_runs_do_not_share_a_folder(tmp_path):
    with ResultFolder(tmp_path), pytest.raises(RuntimeError, match=f"another call is using {tmp_path}"):
        train_many(square, [{"x": 1}], resume=tmp_path, **QUIET)


def test_a_folder_that_cannot_be_written_is_reported_before_anything_runs(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="can't write results"):
        train_many(note, [{"folder": str(tmp_path), "name": "a"}], resume=tmp_path / "file" / "results", **QUIET)
    assert calls(tmp_path) == []


def test_a_folder_that_had_no_room_can_be_used_when_it_has(tmp_path, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr(pickle, "dump", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left") as kept:
            train_many(square, [{"x": 1}], resume=tmp_path, **QUIET)
    assert kept and train_many(square, [{"x": 1}], n_jobs=1, resume=tmp_path, **QUIET)[0].value == 1


def test_a_disk_that_fills_up_loses_no_result(tmp_path, monkeypatch):
    save = ResultFolder.save

    def full(self, key, result):
        if key != "writable":
            raise OSError(28, "No space left on device")
        save(self, key, result)

    monkeypatch.setattr(ResultFolder, "save", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        outcomes = train_many(square, [{"x": 2}, {"x": 3}], n_jobs=1, resume=tmp_path, **QUIET)
    assert [outcome.value for outcome in outcomes] == [4, 9]


def test_half_a_result_is_never_there(tmp_path, monkeypatch):
    monkeypatch.setattr(pickle, "dump", lambda result, file: (file.write(b"half"), file.flush(), 1 / 0))
    folder = ResultFolder(tmp_path)
    with pytest.raises(ZeroDivisionError):
        folder.save("a", 1)
    assert not list(tmp_path.glob("*.pickle"))


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
    with pytest.raises(ValueError, match=r"config 1 can't be sent to another process.*generator"):
        train_many(note, configs, **QUIET)
    with pytest.raises(ValueError, match=r"config 0 can't be sent.*a copy of it hashes differently"):
        train_many(square, [{"x": torch.ones(3)}], **QUIET)
    with pytest.raises(ValueError, match="config 0 must map names"):
        train_many(note, ["a"], **QUIET)
    assert calls(tmp_path) == []


SLEEPER = """
import time
from rlrepro.fixes import train_many

def sleeper(x):
    time.sleep(0.1 if x < 2 else 300)

if __name__ == "__main__":
    train_many(sleeper, [{"x": x} for x in range(8)], n_jobs=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL", "SIGTERM"])
def test_an_interrupted_run_leaves_no_process(tmp_path, how):
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    run = subprocess.Popen(
        [sys.executable, str(script)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    limit = time.monotonic() + 300
    while len(list(tmp_path.glob("train_many-*/*.pickle"))) < 2 and time.monotonic() < limit:
        time.sleep(0.1)
    children = psutil.Process(run.pid).children(recursive=True)
    assert len(children) >= 2
    run.send_signal(getattr(signal, how))
    printed = run.communicate(timeout=120)[1]
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive
    if how == "SIGINT":
        assert "KeyboardInterrupt" in printed and "call again with resume=" in printed


def test_an_interrupt_in_a_notebook_starts_nothing_more():
    from rlrepro.fixes.train_many.isolated_worker import IsolatedWorkers

    processes = IsolatedWorkers(threads=1)
    processes.close()
    with pytest.raises(RuntimeError, match="closed"):
        processes.call(b"", 0)


def test_a_process_that_is_made_during_an_interrupt_is_ended_too(monkeypatch):
    from rlrepro.fixes.train_many import isolated_worker

    class Executor:
        """While one is made, another thread closes all of them."""

        made, ended = [], []

        def __init__(self, *_, **__):
            self.made.append(self)
            closer.start()
            closer.join(0.5)

        def shutdown(self, **_):
            self.ended.append(self)

    monkeypatch.setattr(isolated_worker, "ProcessPoolExecutor", Executor)
    processes = isolated_worker.IsolatedWorkers(threads=1)
    closer = threading.Thread(target=processes.close)
    processes._pool()
    closer.join()
    assert Executor.ended == Executor.made


@pytest.fixture(scope="module")
def local_ray():
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_ray_gives_what_loky_gives(local_ray):
    configs = [{"x": x} for x in range(4)]
    by_ray, by_loky = (train_many(draw, configs, n_jobs=2, backend=backend, **QUIET) for backend in ("ray", "loky"))
    assert [outcome.value for outcome in by_ray] == [outcome.value for outcome in by_loky]
    assert train_many(threads, [{}], backend="ray", **QUIET)[0].value == {1}
    assert local_ray.is_initialized()  # it was not started by train_many


@pytest.mark.slow
def test_ray_survives_what_loky_survives(local_ray):
    hows = ["raise", "be killed", "be slow", "exit"]
    outcomes = train_many(misbehave, [{"how": how} for how in hows], n_jobs=2, backend="ray", **QUIET)
    assert [outcome.value for outcome in outcomes] == [None, None, "be slow", None]
    assert "the robot fell over" in outcomes[0].error and "Ray lost the process" in outcomes[1].error


@pytest.mark.slow
def test_ray_says_if_no_node_has_that_many_cpus(local_ray):
    with pytest.raises(ValueError, match="no node of this Ray has 64 CPUs"):
        train_many(square, [{"x": 1}], backend="ray", threads=64, **QUIET)


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "rlrepro.fixes.train_many.ray_tasks", raising=False)
    with pytest.raises(ImportError, match="pip install ray"):
        train_many(square, [{"x": 1}], backend="ray", **QUIET)


@pytest.mark.slow
def test_a_call_that_succeeds_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_many(square, [{"x": 1}], n_jobs=1, **QUIET)
