import sys
import time
from resource import RUSAGE_SELF, getrusage

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Composite, Unbounded
from torchrl.envs import EnvBase, ParallelEnv


class Slow(EnvBase):  # each step takes 20 ms, without using the CPU
    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded(1))
        self.action_spec, self.reward_spec = Unbounded(1), Unbounded(1)
        self.full_done_spec = Composite(done=Binary(1, dtype=torch.bool), terminated=Binary(1, dtype=torch.bool))

    def _reset(self, _=None):
        return TensorDict(self.observation_spec.zero()).update(self.full_done_spec.zero())

    def _step(self, _):
        time.sleep(0.02)
        return self._reset().set("reward", torch.zeros(1))

    def _set_seed(self, seed):
        pass


if __name__ == "__main__":
    env = ParallelEnv(2, Slow, mp_start_method="fork")
    env.rollout(5)
    wall, before = time.perf_counter(), getrusage(RUSAGE_SELF)
    env.rollout(100)
    wall, after = time.perf_counter() - wall, getrusage(RUSAGE_SELF)
    env.close()
    cpu, sleeps = after.ru_utime - before.ru_utime, after.ru_nvcsw - before.ru_nvcsw
    print(
        f"in {wall:.2f} s in which two environments slept, the parent used {cpu:.2f} s of CPU and slept {sleeps} times"
    )
    sys.exit(sleeps < 100)
