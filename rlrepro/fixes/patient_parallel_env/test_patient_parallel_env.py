"""PatientParallelEnv in the torchrl that is installed, against torchrl's own ParallelEnv."""

import math
import os
import signal
import threading
import time
from functools import partial

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, ParallelEnv

from .done_flags import ALLOWED, LONGEST_SECONDS, REMEMBERED, SAMPLED, DoneFlags
from .env import PatientParallelEnv, wait_patiently

WORKERS = 2
SECONDS = 0.05  # of a step that the parent waits for


class Counter(EnvBase):
    """Observes how many steps it has taken; each step sleeps for this many seconds."""

    def __init__(self, seconds: float = 0.0):
        super().__init__(device="cpu")
        self.observation_spec = Composite(observation=Unbounded((1,)))
        self.action_spec, self.reward_spec = Unbounded((1,)), Unbounded((1,))
        self.seconds, self.steps = seconds, 0

    def _reset(self, tensordict=None, **kwargs):
        self.steps = 0
        return TensorDict({"observation": torch.zeros(1)}, [])

    def _step(self, tensordict):
        time.sleep(self.seconds)
        self.steps += 1
        observation = torch.full((1,), float(self.steps))
        return TensorDict(
            {"observation": observation, "reward": tensordict["action"], "done": torch.tensor([self.steps % 4 == 0])},
            [],
        )

    def _set_seed(self, seed):
        return seed

    def __setitem__(self, index, snapshot):
        self.steps = snapshot.steps

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state_dict, **kwargs):
        self.steps = state_dict["steps"]


def started(cls=PatientParallelEnv, seconds=0.0, **options):
    env = cls(WORKERS, partial(Counter, seconds), mp_start_method="fork", **options)
    env.reset()
    return env


def observed(env):
    stepped = env.step(env.full_action_spec.zero().set("action", torch.ones(WORKERS, 1)))
    return stepped["next", "observation"].flatten().tolist()


@pytest.fixture(params=["class", "patch"])
def patient(request):
    """The drop-in class, and torchrl's own with `wait_patiently`."""
    if request.param == "class":
        yield PatientParallelEnv
    else:
        undo = wait_patiently()
        yield ParallelEnv
        undo()


@pytest.mark.parametrize("use_buffers", [True, False])
def test_a_rollout_is_that_of_torchrl(patient, use_buffers):
    rollouts = []
    for cls in (ParallelEnv, patient):
        torch.manual_seed(0)
        env = started(cls, use_buffers=use_buffers)
        rollouts.append(env.rollout(30, break_when_any_done=False))
        env.close()
    assert (rollouts[0] == rollouts[1]).all()


def parent_cpu(cls):
    """How much of a core the parent keeps busy while its workers sleep."""
    env = started(cls, SECONDS)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(10):
        observed(env)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    env.close()
    assert wall >= 10 * SECONDS
    return cpu / wall


def test_the_parent_sleeps_while_it_waits(patient):
    assert parent_cpu(patient) < 1 / 4


def test_the_parent_of_torchrl_polls():
    assert parent_cpu(ParallelEnv) > 1 / 3  # less than 1 if other programs want its core


def test_a_loaded_state_does_not_delay_transitions(patient):
    env = started(patient, SECONDS)
    observed(env)
    env.load_state_dict({"worker0": {"steps": 4}, "worker1": {"steps": 6}})
    assert [observed(env) for _ in range(3)] == [[5, 7], [6, 8], [7, 9]]
    env.close()


@pytest.mark.skipif("__setitem__" not in vars(ParallelEnv), reason="this torchrl has no snapshots")
def test_a_snapshot_does_not_delay_transitions(patient):
    env, snapshots = started(patient, SECONDS), [Counter(), Counter()]
    observed(env)
    snapshots[0].steps, snapshots[1].steps = 4, 6
    env[:] = snapshots
    assert [observed(env) for _ in range(3)] == [[5, 7], [6, 8], [7, 9]]
    env[1] = snapshots[0]
    assert [observed(env) for _ in range(2)] == [[8, 5], [9, 6]]
    env.close()


def test_an_interrupted_step_does_not_delay_transitions(patient):
    env = started(patient, seconds=0.5)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        observed(env)
    assert [observed(env) for _ in range(2)] == [[2] * WORKERS, [3] * WORKERS]
    env.close()


def test_a_worker_that_dies_is_noticed(patient):
    env = started(patient, seconds=60)
    victim = env._workers[1].pid
    threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
    start = time.perf_counter()
    env._timeout = 0.1  # of the shutdown
    with pytest.raises(RuntimeError, match=r"Cannot proceed, worker 1 dead"):
        observed(env)
    assert time.perf_counter() - start < 30


def test_the_time_limit_is_that_of_torchrl(patient):
    env = started(patient, seconds=2)
    env.BATCHED_PIPE_TIMEOUT = 0.05
    with pytest.raises(RuntimeError, match=r"within the 0.05 sec.*BATCHED_PIPE_TIMEOUT"):
        observed(env)
    env.close()


def test_a_view_of_some_workers_steps_them(patient):
    env = started(patient)
    if "_worker_indices" not in vars(env):
        pytest.skip("this torchrl has no views")
    view = env[1:]
    for step in (1, 2, 3):
        stepped = view.step(view.full_action_spec.zero())
        assert stepped["next", "observation"].flatten().tolist() == [step]
    env.close()


def test_environments_continue_after_undo():
    undo = wait_patiently()
    patient = started(ParallelEnv, SECONDS)
    undo()
    assert "_shm_done_flags" not in vars(ParallelEnv)
    spinning = started(ParallelEnv, SECONDS)
    undo = wait_patiently()
    for step in (1, 2, 3):
        assert observed(patient) == observed(spinning) == [step] * WORKERS
    undo()
    for step in (4, 5, 6):
        assert observed(patient) == observed(spinning) == [step] * WORKERS
    patient.close(), spinning.close()


class FakeSemaphore(threading.Semaphore):
    def __init__(self, value):
        super().__init__(value)
        self.sleeps = 0

    def acquire(self, blocking=True, timeout=None):
        self.sleeps += blocking
        return super().acquire(blocking, timeout=timeout if blocking else None)


class FakeContext:
    Semaphore = FakeSemaphore


def wait_for(flags, seconds):
    """Wait once for a worker that is done after that time. Returns whether the parent went to sleep. It may wake up
    more than once: the worker releases its semaphore after setting its flag, perhaps after the previous wait has
    returned."""
    before = flags.semaphores[0].sleeps
    worker = threading.Timer(seconds, flags.__setitem__, (0, 1))
    worker.start()
    assert flags.wait([0], 10)
    worker.join(timeout=60)
    return flags.semaphores[0].sleeps > before


def test_it_stays_awake_only_for_steps_that_are_short_beside_waking_up():
    flags = DoneFlags(bytearray(1), FakeContext)
    while len(flags.latencies) < REMEMBERED:
        wait_for(flags, 0.01)
    assert flags.awake_seconds <= LONGEST_SECONDS / ALLOWED
    flags.latencies.clear()  # so that awake_seconds does not change
    flags.awake_seconds = 0.2
    wait_for(flags, 0.002)
    assert [wait_for(flags, 0.002) for _ in range(3)] == [False] * 3
    assert wait_for(flags, 0.6)  # awake for awake_seconds, then asleep
    start = time.process_time()
    assert wait_for(flags, 0.6)
    assert time.process_time() - start < 0.1  # asleep at once, since the last step was long


@pytest.mark.parametrize("latency, awake", [(50e-6, 50e-6 / ALLOWED), (2e-3, 0)])
def test_a_core_that_was_not_free_is_no_reason_to_stay_awake(latency, awake):
    flags = DoneFlags(bytearray(1), FakeContext)
    for _ in range(REMEMBERED):
        assert flags.awake_seconds == 0
        flags._remember(latency)
    assert flags.awake_seconds == awake


def test_it_sometimes_sleeps_to_measure_how_long_waking_up_takes():
    flags = DoneFlags(bytearray(1), FakeContext)
    flags.awake_seconds, flags.was_short, flags.returned_at = math.inf, True, 0
    assert 1 <= sum(wait_for(flags, 0.005) for _ in range(2 * SAMPLED)) <= 2


def test_waiting_for_a_flag_ends():
    flags = DoneFlags(bytearray(2), FakeContext)
    flags[0] = 1
    assert not flags.wait([0, 1], 0.05) and not flags.wait([0, 1], 0.05)
    flags[1] = 1
    assert flags.wait([0, 1], 0.05) and list(flags.flags) == [0, 0]
