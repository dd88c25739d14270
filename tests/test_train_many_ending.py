"""Interrupting train_many leaves no process, and starts none."""

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

SLEEPER = """
import ctypes, sys, time
from rlrepro.fixes import train_many

def sleeper(x):
    if x < 2:
        time.sleep(0.1)
    elif sys.argv[1] == "holds":  # no thread of Python runs meanwhile
        ctypes.PyDLL(None).sleep(300)
    else:
        time.sleep(300)

if __name__ == "__main__":
    train_many(sleeper, [{"x": x} for x in range(8)], n_jobs=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal_name", "interpreter"),
    [
        ("SIGINT", "free"),
        ("SIGKILL", "free"),
        ("SIGTERM", "free"),
        pytest.param(
            *("SIGKILL", "holds"),
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent"),
        ),
    ],
)
def test_an_interrupted_run_leaves_no_process(tmp_path, signal_name, interpreter):
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    run = subprocess.Popen(
        [sys.executable, str(script), interpreter],
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
    run.send_signal(getattr(signal, signal_name))
    stderr = run.communicate(timeout=120)[1]
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive
    if signal_name == "SIGINT":
        assert "KeyboardInterrupt" in stderr and "call again with resume=" in stderr


def test_an_interrupt_in_a_notebook_starts_no_more_processes():
    from rlrepro.fixes.train_many.isolated_worker import IsolatedWorkers

    processes = IsolatedWorkers(threads=1)
    processes.close()
    with pytest.raises(RuntimeError, match="closed"):
        processes.call(b"", 0)


def test_a_process_that_is_created_during_an_interrupt_is_ended_too(monkeypatch):
    from rlrepro.fixes.train_many import isolated_worker

    class Executor:
        """While it is created, another thread closes all executors."""

        created, closed = [], []

        def __init__(self, *_, **__):
            self.created.append(self)
            closer.start()
            closer.join(0.5)

        def shutdown(self, **_):
            self.closed.append(self)

    monkeypatch.setattr(isolated_worker, "ProcessPoolExecutor", Executor)
    processes = isolated_worker.IsolatedWorkers(threads=1)
    closer = threading.Thread(target=processes.close)
    processes._pool()
    closer.join()
    assert Executor.closed == Executor.created
