"""Calls of a release that hang on purpose end by their limit, with all processes that they started, and a traceback."""

import os
import subprocess
import sys
import threading
import time

import psutil
import pytest

from rlrepro.lab import Release, ReleaseDied, ReleaseTimeout

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def newest():
    import tianshou

    with Release(f"tianshou=={tianshou.__version__}") as release:
        release.run(is_over, 1, 0)  # the process imports this file here
        yield release


def spin_beside(path):
    """Never ends, and neither does the process that it starts."""
    path.write_text(str(subprocess.Popen(["sleep", "600"]).pid))
    while True:
        pass


def is_over(pid, seconds=10):
    """Whether a process ends within `seconds`."""
    limit = time.monotonic() + seconds
    while not (over := _is_over(pid)) and time.monotonic() < limit:
        time.sleep(0.05)
    return over


def _is_over(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_a_release_that_spins_is_killed_with_its_children(newest, tmp_path):
    pid = newest.run(os.getpid)
    with pytest.raises(ReleaseTimeout) as raised:
        newest.run(spin_beside, tmp_path / "pid", timeout=2)
    for part in (
        "spin_beside",
        newest.requirement,
        "limit of 2 s",
        "`timeout`",
        "RLREPRO_TIMEOUT_FACTOR=2",
        "in spin_beside\n",
    ):
        assert part in str(raised.value)
    assert is_over(pid) and is_over(int((tmp_path / "pid").read_text()))
    assert newest.run(os.getpid) != pid


def wait_for_itself():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def hold_the_interpreter():
    """Hold the GIL, so that no other Python thread runs."""
    import ctypes

    ctypes.PyDLL(None).sleep(600)


@pytest.mark.slow
@pytest.mark.parametrize("hang", [wait_for_itself, hold_the_interpreter])
def test_a_release_that_is_stuck_shows_where(newest, hang):
    with pytest.raises(ReleaseTimeout, match=rf"in {hang.__name__}\n"):
        newest.run(hang, timeout=2)


@pytest.mark.slow
def test_a_release_that_ignores_signals_is_killed_too(newest, monkeypatch):
    monkeypatch.setattr("rlrepro.lab.release_process.GRACE_SECONDS", 1.0)
    with pytest.raises(ReleaseTimeout, match="limit of 1 s"):
        newest.run(lambda: os.kill(os.getpid(), 19), timeout=1)  # SIGSTOP


@pytest.mark.slow
def test_a_message_that_is_never_read_times_out(newest, monkeypatch):
    monkeypatch.setattr("rlrepro.lab.release_process.GRACE_SECONDS", 1.0)
    psutil.Process(newest.run(os.getpid)).suspend()
    with pytest.raises(ReleaseTimeout, match="limit of 1 s"):
        newest.run(len, bytes(2**24), timeout=1)


def test_a_release_that_runs_on_without_its_connection_is_ended(newest, monkeypatch):
    monkeypatch.setattr("rlrepro.lab.release_process.END_SECONDS", 1.0)
    with pytest.raises(ReleaseDied):
        newest.run(lambda: (os.closerange(3, 1000), time.sleep(600)), timeout=30)


ORPHANED = """
import os, signal, subprocess, sys; from pathlib import Path; import tianshou; from rlrepro.lab import Release
def orphan(path, hang):
    sleep = subprocess.Popen(["sleep", "600"]).pid
    Path(path).write_text(f"{os.getpid()} {sleep}")
    os.kill(os.getppid(), signal.SIGKILL)
    while True:
        exec(hang)
Release(f"tianshou=={tianshou.__version__}").run(orphan, *sys.argv[1:], timeout=4)
"""


def orphans(path, hang):
    """The processes of a release whose parent was killed during a call with a limit of 4 seconds."""
    subprocess.run([sys.executable, "-c", ORPHANED, str(path), hang], timeout=60, capture_output=True)
    return map(int, path.read_text().split())


@pytest.mark.slow
def test_a_release_whose_parent_is_killed_ends_within_two_seconds_with_its_children(tmp_path):
    pid, started = orphans(tmp_path / "pids", "pass")
    assert is_over(pid, 2) and is_over(started, 0.2)


@pytest.mark.slow
def test_a_limit_ends_a_release_whose_parent_is_gone(tmp_path):
    """Even when none of its threads can run."""
    pid, started = orphans(tmp_path / "pids", "import ctypes; ctypes.PyDLL(None).sleep(600)")
    os.kill(started, 9)
    assert not is_over(pid, 1) and is_over(pid, 20)
