import os
import signal
import sys
import threading
import time
from contextlib import suppress

import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, ParallelEnv


class Counter(EnvBase):  # observes how many steps it has taken; each takes 0.2 s
    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded(1))
        self.action_spec, self.reward_spec, self.steps = Unbounded(1), Unbounded(1), 0

    def _reset(self, _=None):
        return TensorDict({"observation": torch.tensor([float(self.steps)])})

    def _step(self, _):
        time.sleep(0.2)
        self.steps += 1
        return self._reset().update({"reward": torch.zeros(1), "done": torch.zeros(1, dtype=torch.bool)})

    _set_seed = None

    def load_state_dict(self, state_dict):
        self.steps = state_dict["steps"]


env = ParallelEnv(1, Counter, mp_start_method="fork")
env.reset()
env.load_state_dict({"worker0": {"steps": 10}})
loaded = [int(env.step(env.rand_action())["next", "observation"]) for _ in range(2)]
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
with suppress(KeyboardInterrupt):
    env.step(env.rand_action())
interrupted = [int(env.step(env.rand_action())["next", "observation"]) for _ in range(2)]
env.close()
print(f"after loading a state of 10 steps, two transitions count {loaded} (expected [11, 12]);")
print(f"after an interrupted step, two count {interrupted} (expected [14, 15])")
sys.exit(loaded != [11, 12] or interrupted != [14, 15])
