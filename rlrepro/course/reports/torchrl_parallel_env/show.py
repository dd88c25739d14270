import sys
import time

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Composite, Unbounded
from torchrl.envs import EnvBase, ParallelEnv


class Slow(EnvBase):  # each step takes 20 ms, in which it needs no CPU
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
    env = ParallelEnv(2, Slow)
    env.rollout(5)
    wall, cpu = time.perf_counter(), time.process_time()
    env.rollout(100)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    env.close()
    print(f"in {wall:.2f} s in which two environments sleep, the parent used {cpu:.2f} s of CPU")
    sys.exit(cpu > wall / 4)
