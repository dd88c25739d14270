"""One training run of Stable-Baselines3's PPO, with what it cost; every way of starting many runs starts this one.

As a script, it takes a list of settings in JSON, trains with each in turn, and prints what they returned in JSON.
"""

import importlib
import json
import math
import os
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import psutil

from rlrepro.lab.limits import READY_SECONDS, TookTooLong, limit, overrun

IMPORTS = ("gymnasium.envs.mujoco.hopper_v5", "stable_baselines3", "torch._dynamo")  # the last for torch's optimizers

POLL_SECONDS = 0.01  # between looks at the barrier


def train(
    robot: dict | None,
    *,
    net: int,
    steps: int,
    epochs: int,
    n_envs: int = 1,
    seed: int = 0,
    threads: int | None = None,
    barrier: str | None = None,
    marks: int = 1,
    device: str = "cpu",
) -> dict:
    """One rollout of `steps` and the update that follows, with a hopper of this build (None: Pendulum-v1).

    Args:
        robot: factors of a `robots.Build`
        net: width of both hidden layers, of policy and value network
        n_envs: copies of the environment that step together; they share the `steps`
        threads: how many torch may use; None leaves the number as it is
        barrier: a folder; the run begins when it holds this number of `marks`. Each process adds one when it is
            ready for its first run, and one at the end of each run

    Returns when the run began and ended, and the seconds of the whole run (which include making the model), of the
    rollout, of train(), per environment step and per gradient step. For a gradient step, also CPU seconds, how often
    the system took a core away, and how often the run gave one up. Also torch's threads, and the bytes of GPU memory
    that all processes hold together.
    """
    load()
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    if threads:
        torch.set_num_threads(threads)
    _warm_up(device)
    _wait_at(barrier, marks)
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="robot-") as folder:
        name, options = _environment(robot, Path(folder))
        envs = make_vec_env(name, n_envs, env_kwargs=options)
    model = PPO(
        "MlpPolicy",
        envs,
        policy_kwargs={"net_arch": [net, net]},
        n_steps=steps // n_envs,
        n_epochs=epochs,
        seed=seed,
        device=device,
    )
    rollout, update = Metered(model.collect_rollouts), Metered(model.train)
    model.collect_rollouts, model.train = rollout, update
    model.learn(steps)
    ended = time.time()
    if barrier:
        _mark(barrier, f"{os.getpid()} ended at {ended}")
    gradient_steps = epochs * math.ceil(steps / model.batch_size)
    return {
        "began": began,
        "ended": ended,
        "seconds": ended - began,
        "rollout": rollout.seconds,
        "train": update.seconds,
        "row": rollout.seconds / steps,
        "step": update.seconds / gradient_steps,
        "step_cpu": update.cpu_seconds / gradient_steps,
        "taken_away": update.taken_away / gradient_steps,
        "given_up": update.given_up / gradient_steps,
        "torch_threads": torch.get_num_threads(),
        "device_bytes": _device_bytes(device),
    }


class Metered:
    """A function that adds up what its calls cost this process."""

    def __init__(self, call):
        self.call, self.seconds, self.cpu_seconds, self.taken_away, self.given_up = call, 0.0, 0.0, 0, 0

    def __call__(self, *args, **kwargs):
        process = psutil.Process()
        start, cpu, switches = time.perf_counter(), time.process_time(), process.num_ctx_switches()
        try:
            return self.call(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start
            self.cpu_seconds += time.process_time() - cpu
            after = process.num_ctx_switches()
            self.taken_away += after.involuntary - switches.involuntary
            self.given_up += after.voluntary - switches.voluntary


def forward(*, net: int, count: int, barrier: str, marks: int, threads: int | None = None) -> dict:
    """Forward passes of a network of this width, without autograd: seconds, and CPU seconds."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    layers = torch.nn.Sequential(torch.nn.Linear(net, net), torch.nn.Tanh(), torch.nn.Linear(net, net))
    inputs = torch.zeros(64, net)
    _wait_at(barrier, marks)
    cpu, began = time.process_time(), time.time()
    with torch.inference_mode():
        for _ in range(count):
            layers(inputs)
    ended = time.time()
    return {"began": began, "ended": ended, "seconds": ended - began, "cpu": time.process_time() - cpu}


def load() -> None:
    """Import what a run needs, so that a forked process does not have to."""
    for name in IMPORTS:
        importlib.import_module(name)


@cache
def _warm_up(device: str) -> None:
    """Do what happens only once in a process, with a network that is too small to be split over threads."""
    from stable_baselines3 import PPO

    small = {"net_arch": [8]}
    PPO("MlpPolicy", "Pendulum-v1", n_steps=4, batch_size=4, n_epochs=1, policy_kwargs=small, device=device).learn(1)


def _environment(robot: dict | None, folder: Path) -> tuple[str, dict]:
    """An environment's id and options; the robot's file is in the folder, and read when the environment is made."""
    from rlrepro.cases.parallel_training.robots import Build, write_robot

    return ("Hopper-v5", write_robot(folder / "hopper.xml", Build(**robot))) if robot else ("Pendulum-v1", {})


def _wait_at(barrier: str | None, marks: int) -> None:
    """Wait until the folder holds this number of marks. Raises TookTooLong if it never does."""
    if barrier is None:
        return
    _mark(barrier, str(os.getpid()))
    timeout, start = limit(READY_SECONDS), time.monotonic()
    while (ready := len(list(Path(barrier).iterdir()))) < marks:
        if time.monotonic() - start > timeout:
            raise TookTooLong(overrun(f"waiting for {marks} training runs to start ({ready} are ready)", timeout))
        time.sleep(POLL_SECONDS)


def _mark(barrier: str, name: str) -> None:
    (Path(barrier) / name).touch()


def _device_bytes(device: str) -> int:
    """Bytes of a GPU that all processes hold together, with their CUDA contexts."""
    import torch

    if not device.startswith("cuda"):
        return 0
    free, total = torch.cuda.mem_get_info(device)
    return total - free


if __name__ == "__main__":
    print(json.dumps([train(**config) for config in json.loads(sys.argv[1])]))
