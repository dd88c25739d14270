import os
import signal
import threading
import time

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, ParallelEnv


class CountingSlowEnv(EnvBase):
    """Observes how many steps it has taken; each takes longer than sending a command."""

    def __init__(self, steps=0):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded(1))
        self.action_spec = Unbounded(1)
        self.reward_spec = Unbounded(1)
        self.steps = steps

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"observation": torch.tensor([float(self.steps)])})

    def _step(self, tensordict):
        time.sleep(0.3)
        self.steps += 1
        return self._reset().update({"reward": torch.zeros(1), "done": torch.zeros(1, dtype=torch.bool)})

    def _set_seed(self, seed):
        pass

    def __setitem__(self, index, snapshot):
        self.steps = snapshot.steps

    def load_state_dict(self, state_dict, **kwargs):
        self.steps = state_dict["steps"]


@pytest.mark.parametrize("use_buffers", [True, False])
class TestParallelTransitionsAreNotLate:
    @pytest.fixture
    def env(self, use_buffers):
        env = ParallelEnv(2, CountingSlowEnv, use_buffers=use_buffers, mp_start_method="fork")
        env.reset()
        yield env
        env.close()

    def counts(self, env):
        return env.step(env.rand_action())["next", "observation"].flatten().tolist()

    def test_after_load_state_dict(self, env):
        env.load_state_dict({"worker0": {"steps": 10}, "worker1": {"steps": 20}})
        assert [self.counts(env) for _ in range(2)] == [[11, 21], [12, 22]]

    def test_after_setitem(self, env):
        env[:] = [CountingSlowEnv(10), CountingSlowEnv(20)]
        assert [self.counts(env) for _ in range(2)] == [[11, 21], [12, 22]]
        env[1] = CountingSlowEnv(30)
        assert [self.counts(env) for _ in range(2)] == [[13, 31], [14, 32]]

    def test_after_keyboard_interrupt(self, env):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            self.counts(env)
        assert [self.counts(env) for _ in range(2)] == [[2, 2], [3, 3]]
