"""Code that hangs here on purpose ends by its limit, with an error that says so."""

import os
import socket
import subprocess
import sys
import time
import warnings

import nbformat
import pytest

from rlrepro.course import offline_bundle as carry
from rlrepro.course import runner as reproduce
from rlrepro.course.exercises import core
from rlrepro.course.site import build
from rlrepro.fixes.train_many import isolated_worker
from rlrepro.lab import ReleaseUnavailable, limits, overlays
from rlrepro.lab.pip import pip

pytestmark = pytest.mark.timeout(120)
RAISE_IT = "RLREPRO_TIMEOUT_FACTOR=2"


@pytest.fixture
def silent_index(monkeypatch, tmp_path):
    """A package index that accepts connections but never responds, and an empty cache."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        monkeypatch.setenv("PIP_INDEX_URL", address)
        for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("RLREPRO_CACHE", str(tmp_path / "cache"))
        yield


@pytest.fixture
def hold_lock(tmp_path):
    """Hold a file lock in another process."""
    script = (
        "import sys, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire();print('held', flush=True); input()"
    )
    started = []

    def hold(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", script, str(path)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "held\n"

    yield hold
    for process in started:
        process.communicate("end", timeout=30)


def test_one_factor_raises_every_limit(monkeypatch):
    monkeypatch.delenv(limits.FACTOR, raising=False)
    assert limits.limit(3) == 3
    monkeypatch.setenv(limits.FACTOR, "2.5")
    assert limits.limit(4) == 10


@pytest.mark.parametrize("text", ["fast", "0", "-1", "nan", "inf"])
def test_an_invalid_factor_is_named(monkeypatch, text):
    monkeypatch.setenv(limits.FACTOR, text)
    with pytest.raises(ValueError, match=rf"above 0 in RLREPRO_TIMEOUT_FACTOR, found '{text}'"):
        limits.limit(1)


def test_the_command_line_checks_the_factor_first(monkeypatch, run_cli, tmp_path):
    monkeypatch.setenv(limits.FACTOR, "fast")
    result = run_cli("carry", "out", "--python", "3.12")
    assert result.returncode == 2 and "RLREPRO_TIMEOUT_FACTOR" in result.stderr and "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture
def run_cell(tmp_path, monkeypatch):
    """Run a notebook with this cell and a limit of 3 seconds per cell."""
    monkeypatch.setitem(limits.CELL_SECONDS, "smoke", 3.0)

    def call(source):
        parameters = nbformat.v4.new_code_cell('profile = "smoke"  # how much', metadata={"tags": ["parameters"]})
        cells = [parameters, nbformat.v4.new_code_cell(source), nbformat.v4.new_code_cell("after = 1")]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
        nbformat.write(notebook, tmp_path / "01_hangs.ipynb")
        (run,) = reproduce.run_notebooks([tmp_path / "01_hangs.ipynb"], tmp_path / "out", {"profile": "smoke"})
        return run

    return call


SWALLOWS = "import time\ntry:\n    time.sleep(600)\nexcept BaseException:\n    pass"


@pytest.mark.slow
@pytest.mark.parametrize("source", ["import time\ntime.sleep(600)", SWALLOWS])
def test_a_cell_that_hangs_is_named(run_cell, source):
    run = run_cell(source)
    for part in ("cell 2: the cell that begins with 'import time'", "profile smoke", "limit of 3 s", RAISE_IT):
        assert part in run.error
    assert source == SWALLOWS or "KeyboardInterrupt" in run.path.read_text()  # with the line that it was at


@pytest.mark.slow
def test_a_cell_that_ignores_interrupts_ends_too(run_cell, monkeypatch):
    monkeypatch.setattr(reproduce, "INTERRUPT_SECONDS", 1.0)
    run = run_cell("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)")
    assert "cell 2: the cell that begins with 'import signal, time'" in run.error and "limit of 3 s" in run.error


@pytest.mark.slow
def test_a_kernel_that_does_not_start_is_reported(run_cell, monkeypatch, tmp_path):
    monkeypatch.setattr(reproduce, "KERNEL_SECONDS", 1.0)
    spec = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text('{"argv": ["sh", "-c", "sleep 600"], "display_name": "Python 3", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    run = run_cell("import os")
    assert "the start of its kernel: Kernel didn't respond in 1 seconds" in run.error and RAISE_IT in run.error


@pytest.mark.slow
def test_a_silent_index_is_not_waited_for(silent_index, monkeypatch, tmp_path):
    monkeypatch.setattr("rlrepro.lab.pip.PIP_SECONDS", 3.0)
    with pytest.raises(limits.TookTooLong, match=rf"pip download .*limit of 3 s.*PIP_INDEX_URL.*{RAISE_IT}"):
        pip("download", "nothing==1.0")
    with pytest.raises(ReleaseUnavailable, match=r"tianshou==1\.0\.0 is not in .*pip install .*limit of 3 s"):
        overlays.install("tianshou==1.0.0")
    assert [path.suffix for path in overlays.overlay_folder("tianshou==1.0.0").parent.iterdir()] == [".lock"]
    monkeypatch.setattr(carry, "known_releases", list)
    with pytest.raises(carry.CannotCarry, match=r"pip download .*limit of 3 s"):
        carry.carry(tmp_path / "bundle", "3.12")


@pytest.mark.slow
def test_fetch_reports_a_timeout_in_one_line(silent_index, run_cli, monkeypatch):
    monkeypatch.setenv(limits.FACTOR, str(4 / limits.PIP_SECONDS))
    result = run_cli("fetch", "tianshou==1.0.0")
    assert result.returncode == 1 and "limit of 4 s" in result.stderr and "Traceback" not in result.stderr


def test_a_lock_that_another_process_keeps_is_named(silent_index, hold_lock, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "LOCK_SECONDS", 0.5)
    folder = overlays.overlay_folder("tianshou==1.0.0")
    lock = folder.with_name(f"{folder.name}.lock")
    hold_lock(lock)
    with pytest.raises(ReleaseUnavailable) as raised:
        overlays.install("tianshou==1.0.0")
    for part in (str(lock), "installs tianshou==1.0.0", "limit of 0.5 s", RAISE_IT):
        assert part in str(raised.value)
    hold_lock(tmp_path / "_build" / ".lock")
    with pytest.raises(limits.TookTooLong, match="builds this book"):
        build.build(tmp_path, tmp_path)


def test_a_book_that_hangs_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "BOOK_SECONDS", 1.0)
    monkeypatch.setattr(build, "stage", lambda *args, **options: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "python").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(build.BookFailed, match=rf"Jupyter Book .*limit of 1 s.*{RAISE_IT}"):
        build.build(tmp_path, tmp_path)


def test_processes_that_cannot_be_ended_are_left_with_a_warning(monkeypatch):
    class Stuck:
        def shutdown(self, kill_workers):
            time.sleep(5)

    monkeypatch.setattr(isolated_worker, "CLOSE_SECONDS", 0.2)
    processes = isolated_worker.IsolatedWorkers(threads=1)
    processes._pools.append(Stuck())
    with pytest.warns(UserWarning, match=r"did not end within 0\.2 s"):
        processes.close()


def test_processes_that_can_be_ended_cause_no_warning():
    processes = isolated_worker.IsolatedWorkers(threads=1)
    assert processes._pool().submit(os.getpid).result(timeout=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        processes.close()


def test_an_answer_that_hangs_is_reported(monkeypatch):
    monkeypatch.setattr("rlrepro.course.exercises.parallel_training.ANSWER_SECONDS", 0.01)
    message = core.judge("4.4", {"OMP_NUM_THREADS": "1"}).message
    assert "a process with that environment did not end" in message and RAISE_IT in message


HANGS = """
import threading, time

def work_beside():
    time.sleep(60)

def test_hangs():
    threading.Thread(target=work_beside, daemon=True).start()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def test_is_run_nevertheless():
    pass
"""


@pytest.mark.slow
def test_a_test_that_hangs_ends_with_every_stack(tmp_path, pytestconfig):
    (tmp_path / "test_it.py").write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", str(pytestconfig.inipath)]
    command += ["--rootdir", str(tmp_path), "--timeout", "2", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "Timeout (>2.0s) from pytest-timeout" in result.stdout and "1 failed, 1 passed" in result.stdout
    assert "Stack of Thread-1 (work_beside)" in result.stdout and ">       lock.acquire()" in result.stdout


def test_every_test_has_a_limit(pytestconfig):
    assert 0 < float(pytestconfig.getini("timeout")) < float(pytestconfig.getini("faulthandler_timeout"))
