"""Planning takes no memory, leaves the surrounding code's state alone, and returns a value."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlrepro.cases.common.tianshou_vectors import FEATURES, DiscreteActor, VectorCritic
from rlrepro.fit import Plan, plan
from rlrepro.lab import VirtualCard

from .fit_networks import CHOICE, TIANSHOU, VECTORS, make_plan


@pytest.mark.slow
@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode, lambda: VirtualCard(0.0001, device="cpu")])
def test_contexts_around_a_plan_change_nothing(around):
    networks, expected = TIANSHOU["mlp"](), make_plan("mlp", rollout=64, batch_size=16)
    with around():
        planned = plan(*networks, VECTORS, CHOICE, rollout=64, batch_size=16, device="cpu")
        assert planned.at(envs=128).stages["learn"] == planned.stages["learn"]
    assert planned.stages == expected.stages


@pytest.mark.slow
def test_plans_can_be_made_in_several_threads():
    expected = make_plan("mlp", rollout=128).stages
    with ThreadPoolExecutor(3) as pool:
        plans = [pool.submit(lambda: make_plan("mlp", rollout=64).at(rollout=128)) for _ in range(4)]
    assert all(future.result().stages == expected for future in plans)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process in /proc")
def test_a_laptop_plans_for_a_large_card():
    script = """
import numpy as np, torch
from pathlib import Path
from gymnasium import spaces
import tianshou.algorithm  # a CUDA build of torch takes hundreds of MB to import
from rlrepro.cases.common.tianshou_ppo import visual_networks
from rlrepro.fit import plan

def resident():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024

before = resident()
planned = plan(*visual_networks("nature"), spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6),
               rollout=1_000_000, batch_size=250_000, device_memory_gib=141)
print(planned.peak_bytes, resident() - before)
"""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    peak, added = map(int, completed.stdout.split()[-2:])
    assert peak > 100e9 and added < 0.5e9


def test_a_plan_is_a_value_that_runs_nothing():
    planned = make_plan("mlp", rollout=64)
    sizes = {"rollout": 64, "max_batchsize": 256, "batch_size": 64, "envs": 1}
    copied = Plan(sizes, 1, stages=planned.stages, margins=planned.margins, _planner=None)
    assert copied == planned.at(device_memory_gib=1) == planned.at(device_memory_gib=1)
    assert copied != planned and copied != planned.at(device_memory_gib=1, rollout=65)
    assert copied.fits() and copied.failing_stage(copied.needed["learn"] / 2**30 - 1e-6) == "learn"


def test_networks_larger_than_this_machine_are_planned_on_the_meta_device():
    with torch.device("meta"):
        networks = DiscreteActor(FEATURES, 10**9), VectorCritic(FEATURES)
        planned = plan(*networks, VECTORS, spaces.Discrete(10**9), rollout=4, batch_size=2)
    assert planned.peak_bytes > 4 * 128 * 10**9 * 4  # weights, gradients and Adam's two
    assert not planned.margins  # nothing could be run


def test_planning_leaves_networks_and_random_numbers_alone():
    actor, critic = TIANSHOU["mlp"]()
    before = [parameter.clone() for parameter in actor.parameters()]
    numbers = []
    for planning in (False, True):
        torch.manual_seed(0)
        np.random.seed(0)
        if planning:
            plan(actor, critic, VECTORS, CHOICE, rollout=100)
        numbers.append((torch.rand(1).item(), np.random.random()))
    assert numbers[0] == numbers[1]
    assert all(torch.equal(a, b) for a, b in zip(before, actor.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in actor.parameters())


def test_planning_does_not_wait_for_numba(monkeypatch):
    def compile_by_running(*_):
        raise AssertionError("tianshou's policy compiles n-step returns, which no stage of PPO uses")

    monkeypatch.setattr("tianshou.algorithm.algorithm_base._nstep_return", compile_by_running)
    assert make_plan("mlp", rollout=64).fits(1)
