"""rlrepro doctor --run, with processes that come and go: it sees them, and waits for none of them."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from rlrepro.doctor.live.command import run
from rlrepro.doctor.live.progress import Progress
from rlrepro.doctor.live.sampler import ThreadSampler
from rlrepro.doctor.live.threads import children
from rlrepro.fixes import thread_budget

pytestmark = pytest.mark.usefixtures("one_thread")
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


@linux
@pytest.mark.timing
def test_seconds_of_threads():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)\nwhile True: pass"])
    try:
        sampler = ThreadSampler(child.pid)
        for _ in range(10):
            time.sleep(0.1)
            sampler.sample()
        crowd = sampler.crowd
        assert 0.1 < crowd.ran_seconds + crowd.waited_seconds < 1.5
        assert crowd.processes == 1 and crowd.crowded_samples == 0
    finally:
        child.kill()
        child.wait()


TOGETHER = """\
import multiprocessing, time
import torch

def train(seed):
    network = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
    optimizer, end, steps = torch.optim.Adam(network.parameters()), time.time() + 2, 0
    while time.time() < end or steps < 10:  # where threads spin, a step may take a second
        loss = network(torch.randn(256, 256)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(COUNT) as pool:
        pool.map(train, range(COUNT))
        pool.close()
        pool.join()  # otherwise the workers are killed, perhaps before they have left their last notes
"""


@linux
@pytest.mark.timing
@pytest.mark.skipif(thread_budget(1) < 2, reason="with one core, torch has one thread")
@pytest.mark.parametrize("all_cores, codes, text", [(True, ["RUN001"], "more threads"), (False, [], "not a problem")])
def test_twice_as_many_training_processes_as_cores(tmp_path, monkeypatch, all_cores, codes, text):
    """The report prints it as a problem if and only if it is a finding."""
    cores = thread_budget(1)
    monkeypatch.setenv("OMP_NUM_THREADS", str(cores if all_cores else 1))
    (tmp_path / "train.py").write_text(TOGETHER.replace("COUNT", str(2 * cores)))
    report, _ = run([sys.executable, "train.py"], folder=tmp_path)
    assert [finding.code for finding in report.findings] == codes and text in str(report).splitlines()[0], str(report)
    assert Progress.of(report.notes).processes > 1


LEFT_BEHIND = """import os, pathlib, sys, time
import torch
torch.nn.Linear(3, 3)(torch.ones(4, 3))
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    end = time.time() + 60
    while time.time() < end and not pathlib.Path("enough").exists():
        torch.nn.Linear(3, 3)(torch.ones(4, 3))
    pathlib.Path("ended").touch()
    os._exit(0)
os.wait()
sys.exit(6)
"""


@pytest.mark.slow
def test_a_process_that_outlives_the_command_is_not_waited_for(tmp_path):
    report, status = run([sys.executable, "-c", LEFT_BEHIND], folder=tmp_path)
    assert status == 6 and report.notes.passes and not (tmp_path / "ended").exists()
    (tmp_path / "enough").touch()


# A worker that is killed while it holds one of the pool's two locks leaves the pool waiting forever, watched or not.
ENDED_AT_RANDOM = """\
import contextlib, multiprocessing, os, random, signal, sys, time
import torch

def work(seed):
    matrix, end = torch.randn(256, 256), time.time() + 0.2 * random.random()
    while time.time() < end:
        matrix @ matrix

if __name__ == "__main__":
    pool = multiprocessing.get_context("fork").Pool(4)
    pool.map_async(work, range(100))
    time.sleep(0.3 * random.random())
    with pool._inqueue._rlock, pool._outqueue._wlock:
        for worker in random.sample(pool._pool, 2):
            os.kill(worker.pid, signal.SIGTERM)
            with contextlib.suppress(ChildProcessError):  # the pool has noticed already
                os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    time.sleep(0.2 * random.random())
    pool.terminate()
    pool.join()
    sys.exit(3)
"""


@linux
@pytest.mark.slow
def test_workers_that_end_at_random(tmp_path):
    """They end as they do without a watch, and leave nothing in the process table."""
    (tmp_path / "train.py").write_text(ENDED_AT_RANDOM)
    before = set(children(os.getpid()))
    for _ in range(5):
        _, status = run([sys.executable, "train.py"], folder=tmp_path, seconds=60)
        assert status == 3
    assert set(children(os.getpid())) == before
    assert not [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(tmp_path)]
