import os
import time

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Binary, Composite, Unbounded
from torchrl.envs import EnvBase, ParallelEnv


class SleepingEnv(EnvBase):
    """Takes 20 ms for each step, without using the CPU."""

    def __init__(self, dies=False):
        super().__init__()
        self.dies = dies
        self.observation_spec = Composite(observation=Unbounded(1))
        self.action_spec = Unbounded(1)
        self.reward_spec = Unbounded(1)
        self.full_done_spec = Composite(done=Binary(1, dtype=torch.bool), terminated=Binary(1, dtype=torch.bool))

    def _reset(self, tensordict=None):
        return TensorDict(self.observation_spec.zero()).update(self.full_done_spec.zero())

    def _step(self, tensordict):
        time.sleep(0.02)
        if self.dies:
            os._exit(1)
        return self._reset().set("reward", torch.zeros(1))

    def _set_seed(self, seed):
        pass


class TestParallelWait:
    def test_parent_sleeps_while_workers_step(self):
        env = ParallelEnv(2, SleepingEnv)
        try:
            env.rollout(5)
            wall, cpu = time.perf_counter(), time.process_time()
            env.rollout(50)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        finally:
            env.close()
        assert wall >= 50 * 0.02
        assert cpu < wall / 4

    def test_dead_worker_is_still_noticed(self):
        env = ParallelEnv(1, lambda: SleepingEnv(dies=True))
        with pytest.raises(RuntimeError, match="dead"):
            env.rollout(2)
