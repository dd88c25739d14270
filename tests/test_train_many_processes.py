"""A run of train_many that is killed, or exceeds its time, ends with every process that it has started."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from rlrepro.fixes import train_many

SECONDS = 120  # for a script that starts processes on a busy machine; the runs' own children sleep for longer
TIMEOUT = 4  # of a run

SCRIPT = """
import json, multiprocessing, os, subprocess, sys, time
from pathlib import Path
from rlrepro.fixes import train_many

if "environments" in sys.argv[2]:  # in a worker too, before the time of its run
    import gymnasium as gym
    from stable_baselines3.common.vec_env import SubprocVecEnv

folder = Path(sys.argv[1])


def note(pid):
    (folder / str(pid)).touch()


def start_children(kind):
    if kind == "environments":
        envs = SubprocVecEnv([lambda: gym.make("CartPole-v1")] * 2, start_method="fork")
        return envs, [process.pid for process in envs.processes]
    if kind == "forked":
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        child.start()
    elif kind == "program":
        child = subprocess.Popen(["sleep", "600"])
    elif kind == "grandchild":
        command = ["sh", "-c", "sleep 600 & echo $!; wait"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        note(int(child.stdout.readline()))
    return child, [child.pid]


def train(kind, ending):
    if ending == "finish":
        time.sleep(1)
        return ending
    children, pids = start_children(kind)
    note(os.getpid())
    for pid in pids:
        note(pid)
    if ending == "be killed":
        os.kill(os.getpid(), 9)
    (folder / "started").touch()
    time.sleep(600)


if __name__ == "__main__":
    configs, timeout = json.loads(sys.argv[2]), json.loads(sys.argv[3])
    start = time.monotonic()
    outcomes = train_many(train, configs, n_jobs=2, timeout=timeout, progress=False)
    print(json.dumps([[o.value, o.error, o.seconds] for o in outcomes] + [time.monotonic() - start]))
"""


def start(tmp_path, configs, timeout=None):
    script, notes = tmp_path / "script.py", tmp_path / "notes"
    script.write_text(SCRIPT)
    notes.mkdir()
    command = [sys.executable, script, notes, json.dumps(configs), json.dumps(timeout)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def noted(tmp_path):
    return [int(path.name) for path in (tmp_path / "notes").iterdir() if path.name.isdigit()]


def remaining(tmp_path, allowed=10.0):
    """The noted processes that still run after `allowed` seconds; they are ended."""
    processes = []
    for pid in noted(tmp_path):
        with suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(pid))
    alive = psutil.wait_procs(processes, timeout=allowed)[1]
    alive = [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    for process in alive:
        process.kill()
    return alive


def finish(process, tmp_path):
    """The outcomes, and the seconds of the call."""
    try:
        output, _ = process.communicate(timeout=SECONDS)
    finally:
        left = remaining(tmp_path)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    *outcomes, seconds = json.loads(output)
    assert len(noted(tmp_path)) >= 2 and not left, left
    return outcomes, seconds


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["forked", "environments", "program", "grandchild"])
def test_a_run_over_its_time_is_ended_with_its_processes(kind, tmp_path):
    configs = [{"kind": kind, "ending": "hang"}, {"kind": kind, "ending": "finish"}]
    outcomes, seconds = finish(start(tmp_path, configs, timeout=TIMEOUT), tmp_path)
    assert outcomes[0][:2] == [None, f"this training run was ended after timeout={TIMEOUT} seconds"]
    assert TIMEOUT <= outcomes[0][2] < TIMEOUT + 2 and seconds < 60
    assert outcomes[1][:2] == ["finish", None]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["forked", "program"])
def test_a_killed_run_is_an_outcome_and_its_processes_end(kind, tmp_path):
    configs = [{"kind": kind, "ending": ending} for ending in ("be killed", "finish", "be killed", "finish")]
    outcomes, seconds = finish(start(tmp_path, configs), tmp_path)
    assert [value for value, *_ in outcomes] == [None, "finish", None, "finish"] and seconds < 60
    assert all("was killed (SIGKILL(-9)); if memory" in error for _, error, _ in outcomes[::2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "signal_name, kind",
    [
        ("SIGINT", "forked"),
        ("SIGINT", "program"),
        pytest.param(
            *("SIGKILL", "forked"),
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent"),
        ),
    ],
)
def test_an_interrupted_call_leaves_no_process_of_a_run(signal_name, kind, tmp_path):
    process = start(tmp_path, [{"kind": kind, "ending": "hang"}] * 2)
    limit = time.monotonic() + SECONDS
    while not Path(tmp_path, "notes", "started").exists() and time.monotonic() < limit:
        time.sleep(0.1)
    process.send_signal(getattr(signal, signal_name))
    try:
        process.wait(SECONDS)
    finally:
        left = remaining(tmp_path)
        process.kill()
    assert len(noted(tmp_path)) >= 2 and not left, left


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_fork_whose_parent_has_already_ended_ends_too():
    script = """
import os
from rlrepro.fixes.train_many import worker_main

worker_main._end_forks()
for has_ended in (False, True):
    if has_ended:
        os.getppid = lambda: 1
    child = os.fork()
    if not child:
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS)
    assert completed.stdout.split() == ["0", "1"], completed.stderr


def fork(ending):
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return "parent", os.waitstatus_to_exitcode(status)
    if ending == "raise":
        raise ValueError("in the fork")
    if ending == "exit":
        sys.exit(3)
    return "fork", 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="only Unix has fork")
def test_a_fork_that_leaves_the_function_does_not_answer_in_place_of_the_run(capfd):
    outcomes = train_many(
        fork, [{"ending": ending} for ending in ("return", "raise", "exit")], n_jobs=1, progress=False
    )
    assert [outcome.value for outcome in outcomes] == [("parent", 0), ("parent", 1), ("parent", 3)]
    assert "ValueError: in the fork" in capfd.readouterr().err
