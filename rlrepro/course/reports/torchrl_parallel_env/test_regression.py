import threading
import time

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Binary, Composite, Unbounded
from torchrl.envs import EnvBase, ParallelEnv


class SleepingEnv(EnvBase):
    """Each step takes this many seconds, without using the CPU."""

    def __init__(self, seconds=0.02):
        super().__init__()
        self.seconds = seconds
        self.observation_spec = Composite(observation=Unbounded(1))
        self.action_spec = Unbounded(1)
        self.reward_spec = Unbounded(1)
        self.full_done_spec = Composite(done=Binary(1, dtype=torch.bool), terminated=Binary(1, dtype=torch.bool))

    def _reset(self, tensordict=None):
        return TensorDict(self.observation_spec.zero()).update(self.full_done_spec.zero())

    def _step(self, tensordict):
        time.sleep(self.seconds)
        return self._reset().set("reward", torch.zeros(1))

    def _set_seed(self, seed):
        pass


class TestParallelWait:
    def test_parent_sleeps_while_workers_step(self):
        resource = pytest.importorskip("resource")
        env = ParallelEnv(2, SleepingEnv, mp_start_method="fork")
        try:
            env.rollout(5)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
            env.rollout(50)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        finally:
            env.close()
        # unlike the CPU time, the number of sleeps does not depend on what else is running
        assert after - before >= 50

    def test_dead_worker_is_still_noticed(self):
        env = ParallelEnv(1, lambda: SleepingEnv(seconds=8), mp_start_method="fork")
        env.reset()
        threading.Timer(1.0, env._workers[0].kill).start()
        start = time.monotonic()
        with pytest.raises(RuntimeError, match="dead"):
            env.step(env.rand_action())
        assert time.monotonic() - start < 8
