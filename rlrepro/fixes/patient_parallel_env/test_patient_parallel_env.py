"""PatientParallelEnv in the torchrl that is installed, against torchrl's own ParallelEnv."""

import inspect
import os
import signal
import threading
import time
from functools import partial

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Composite, NonTensor, Unbounded
from torchrl.envs import EnvBase, ParallelEnv

from .env import HAS_FLAGS, PatientParallelEnv, wait_patiently

WORKERS = 2
SECONDS = 0.05  # of a step that the parent waits for
ASLEEP = HAS_FLAGS or "_wait_for_workers" not in inspect.getsource(ParallelEnv._step_no_buffers)


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


class TextCounter(Counter):
    """Also says in words how many."""

    def __init__(self, seconds: float = 0.0):
        super().__init__(seconds)
        self.observation_spec = Composite(observation=Unbounded((1,)), text=NonTensor(shape=()))

    def _reset(self, tensordict=None, **kwargs):
        return super()._reset(tensordict, **kwargs).set("text", "0")

    def _step(self, tensordict):
        return super()._step(tensordict).set("text", str(self.steps))


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


@pytest.mark.parametrize(
    "use_buffers", [True, pytest.param(False, marks=pytest.mark.skipif(ASLEEP, reason="torchrl sleeps then"))]
)
@pytest.mark.parametrize("cls", [Counter, TextCounter])
def test_an_interrupted_step_does_not_delay_transitions(patient, cls, use_buffers):
    env = patient(WORKERS, partial(cls, 0.5), mp_start_method="fork", use_buffers=use_buffers)
    env.reset()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        observed(env)
    assert [observed(env) for _ in range(2)] == [[2] * WORKERS, [3] * WORKERS]
    if cls is TextCounter:
        assert set(env.step(env.full_action_spec.zero())["next", "text"]) == {"4"}
    env.close()


def test_ctrl_c_in_a_terminal_interrupts_workers_too(patient):
    env = started(patient, seconds=5)
    interrupted = [*(worker.pid for worker in env._workers), os.getpid()]
    threading.Timer(0.2, lambda: [os.kill(pid, signal.SIGINT) for pid in interrupted]).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        observed(env)
    assert time.perf_counter() - start < 4


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
