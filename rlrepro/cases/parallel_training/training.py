"""One training as each way of starting many runs it: PPO of Stable-Baselines3, with what it cost.

Run as a script, it trains by the settings in its argument and prints what it found, both in JSON.
"""

import importlib
import json
import math
import os
import sys
import time
from functools import cache
from pathlib import Path

import psutil

from rlrepro.lab.limits import READY_SECONDS, TookTooLong, limit, overrun

NEEDED = ("gymnasium.envs.mujoco.hopper_v5", "stable_baselines3", "torch._dynamo")  # the last by torch's optimizers

POLL_SECONDS = 0.01  # between looks at whether all are ready


def train(
    robot: dict | None,
    *,
    net: int,
    steps: int,
    epochs: int,
    n_envs: int = 1,
    seed: int = 0,
    threads: int | None = None,
    ready: str | None = None,
    together: int = 1,
    device: str = "cpu",
) -> dict:
    """One rollout of `steps` and the update that follows, in a hopper of that build (None: Pendulum-v1).

    net      width of both hidden layers, of policy and value network
    n_envs   copies of the environment that step together; they share the `steps`
    threads  that torch may use; None leaves it as it is
    ready    a folder in which processes that start together say that they are ready, `together` of them

    Returns seconds of the whole, with making the model, and when it began and ended; of the rollout and of train(); of
    each row of the rollout; of each gradient step, with its CPU seconds, how often the system took a core away and one
    was given up; torch's threads; and what all processes together hold of the GPU.
    """
    load()
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    if threads:
        torch.set_num_threads(threads)
    _warm_up(device)
    _wait_for_all(ready, together)
    began = time.time()
    name, options = ("Hopper-v5", robot) if robot else ("Pendulum-v1", {})
    model = PPO(
        "MlpPolicy",
        make_vec_env(name, n_envs, env_kwargs=options),
        policy_kwargs={"net_arch": [net, net]},
        n_steps=steps // n_envs,
        n_epochs=epochs,
        seed=seed,
        device=device,
    )
    rollout, update = Spent(model.collect_rollouts), Spent(model.train)
    model.collect_rollouts, model.train = rollout, update
    model.learn(steps)
    gradient_steps = epochs * math.ceil(steps / model.batch_size)
    return {
        "began": began,
        "ended": time.time(),
        "seconds": time.time() - began,
        "rollout": rollout.seconds,
        "train": update.seconds,
        "row": rollout.seconds / steps,
        "step": update.seconds / gradient_steps,
        "step_cpu": update.cpu_seconds / gradient_steps,
        "taken_away": update.taken_away / gradient_steps,
        "given_up": update.given_up / gradient_steps,
        "threads": torch.get_num_threads(),
        "device_bytes": _used(device),
    }


class Spent:
    """A function, and what its calls have cost this process."""

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


def forward(*, net: int, count: int, together: int, ready: str, threads: int | None = None) -> dict:
    """Forward passes of a network of that width, without autograd: seconds, and CPU seconds."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    layers = torch.nn.Sequential(torch.nn.Linear(net, net), torch.nn.Tanh(), torch.nn.Linear(net, net))
    rows = torch.zeros(64, net)
    _wait_for_all(ready, together)
    cpu, began = time.process_time(), time.time()
    with torch.inference_mode():
        for _ in range(count):
            layers(rows)
    ended = time.time()
    return {"began": began, "ended": ended, "seconds": ended - began, "cpu": time.process_time() - cpu}


def load() -> None:
    """Import what a training needs, so that a forked process need not."""
    for name in NEEDED:
        importlib.import_module(name)


@cache
def _warm_up(device: str) -> None:
    """What comes only once in a process, with a network that is too small to be split over threads."""
    from stable_baselines3 import PPO

    small = {"net_arch": [8]}
    PPO("MlpPolicy", "Pendulum-v1", n_steps=4, batch_size=4, n_epochs=1, policy_kwargs=small, device=device).learn(1)


def _wait_for_all(folder: str | None, together: int) -> None:
    """Wait until `together` processes have come here. Raises TookTooLong where some never do."""
    if folder is None:
        return
    (Path(folder) / str(os.getpid())).touch()
    allowed, start = limit(READY_SECONDS), time.monotonic()
    while (there := len(list(Path(folder).iterdir()))) < together:
        if time.monotonic() - start > allowed:
            raise TookTooLong(overrun(f"waiting for {together} training runs to start ({there} have)", allowed))
        time.sleep(POLL_SECONDS)


def _used(device: str) -> int:
    """Bytes of a GPU that all processes together have taken, their CUDA contexts included."""
    import torch

    if not device.startswith("cuda"):
        return 0
    free, total = torch.cuda.mem_get_info(device)
    return total - free


if __name__ == "__main__":
    print(json.dumps(train(**json.loads(sys.argv[1]))))
