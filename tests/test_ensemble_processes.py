"""EnsemblePPO with environments in separate processes: it survives their death and Ctrl-C, and always ends them."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from .registered_env import REGISTERED_ENV

pytestmark = pytest.mark.slow
SECONDS = 120  # for a script, which would otherwise wait for ever
IMPORTS = """
import os, signal, threading, time
import gymnasium as gym
from rlrepro.fixes import EnsemblePPO
sizes = dict(seeds=[0, 1], n_steps=64, n_epochs=1, vectorization="async")
"""
KILLED = """
if __name__ == "__main__":
    ensemble = EnsemblePPO("Pendulum-v1", n_envs=2, **sizes).learn(128)
    for attempt in ("learn again", "close"):
        os.kill(ensemble.envs.processes[3].pid, 9)
        try:
            ensemble.learn(128)
        except RuntimeError as error:
            print(error)
        if attempt == "learn again":
            print(len(set(ensemble.learn(128).envs.processes)), ensemble.num_timesteps >= 256)
    ensemble.close()
    print("closed", any(process.is_alive() for process in ensemble.envs.processes))
"""
INTERRUPTED = """
if __name__ == "__main__":
    ensemble = EnsemblePPO("Pendulum-v1", **sizes).learn(64)
    for attempt in range(2):
        threading.Timer(0.5, lambda: os.killpg(0, signal.SIGINT)).start()  # as a terminal does
        try:
            ensemble.learn(10**9)
        except KeyboardInterrupt:
            print("interrupted")
        if attempt == 0:
            print(ensemble.learn(64).networks.flat.isfinite().all().item())
    ensemble.close()
    print("closed")
"""
STUCK = """
class Stuck(gym.Wrapper):
    def step(self, action):
        if os.getppid() == parent:
            time.sleep(1000)
        return self.env.step(action)
parent = os.getpid()
if __name__ == "__main__":
    ensemble = EnsemblePPO(lambda: Stuck(gym.make("Pendulum-v1")), **sizes)
    threading.Timer(3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        ensemble.learn(64)
    except KeyboardInterrupt:
        start = time.monotonic()
        ensemble.close()
        print("closed", time.monotonic() - start < 30)
"""
REGISTERED = (
    REGISTERED_ENV
    + """    ensemble = EnsemblePPO("Mine-v0", **sizes).learn(64)
    print([episodes.lengths for episodes in ensemble.episodes])
    ensemble.close()
"""
)
FAILING = """
def make():
    if os.getpid() != parent:
        raise OSError("no license for another simulator")
    return gym.make("Pendulum-v1")
parent = os.getpid()
if __name__ == "__main__":
    try:
        EnsemblePPO(make, **sizes)
    except RuntimeError as error:
        print(error)
"""
REFUSED = """
from multiprocessing import active_children
from pathlib import Path
import torch
path = Path(__file__).with_name("ensemble.pt")
if __name__ == "__main__":
    EnsemblePPO("Pendulum-v1", **{**sizes, "vectorization": "sync"}).save(path)
    for refused in (
        lambda: EnsemblePPO("Pendulum-v1", **sizes, policy_kwargs={"optimizer_class": torch.optim.RAdam}),
        lambda: EnsemblePPO.load(path, "Acrobot-v1", vectorization="async"),
        lambda: EnsemblePPO.load(path, "Pendulum-v1", vectorization="async", target_kl=0.1),
    ):
        try:
            refused()
        except ValueError as error:  # which holds the ensemble
            print(str(error).split(" (")[0], active_children())
"""


def output_of(script, tmp_path):
    """What a script prints in SECONDS; then all its processes are killed."""
    path = tmp_path / "script.py"
    path.write_text(IMPORTS + script)
    with (tmp_path / "output").open("w") as file:
        options = {"stdout": file, "stderr": subprocess.STDOUT, "start_new_session": True}
        process = subprocess.Popen([sys.executable, path], env=os.environ | {"OMP_NUM_THREADS": "1"}, **options)
        try:
            process.wait(SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(SECONDS)
    return (tmp_path / "output").read_text()


def test_a_process_that_is_killed_is_named_and_replaced(tmp_path):
    output = output_of(KILLED, tmp_path)
    assert output.count("environment processes of members [1] died (exit codes [-9])") == 2
    assert "4 True" in output and output.endswith("closed False\n")


def test_it_continues_and_closes_after_an_interrupt(tmp_path):
    assert output_of(INTERRUPTED, tmp_path) == "interrupted\nTrue\ninterrupted\nclosed\n"


def test_a_step_that_does_not_end_is_killed(tmp_path):
    assert output_of(STUCK, tmp_path) == "closed True\n"


def test_an_environment_that_a_script_registers_is_made_in_other_processes(tmp_path):
    assert "[[20, 20, 20], [20, 20, 20]]" in output_of(REGISTERED, tmp_path)


def test_a_process_that_can_not_start_is_named(tmp_path):
    output = output_of(FAILING, tmp_path)
    assert "no license for another simulator" in output and "environment processes of members [" in output


def test_no_process_is_left_by_an_ensemble_that_is_refused(tmp_path):
    optimizer, weights, target_kl = output_of(REFUSED, tmp_path).splitlines()
    assert "RAdam" in optimizer and weights.startswith("expected") and target_kl.startswith("target_kl")
    assert all(line.endswith(" []") for line in (optimizer, weights, target_kl))
