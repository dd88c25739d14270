"""An environment whose step keeps a core busy for a fixed time, as a simulator does."""

import time

import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase


class FixedTime(EnvBase):
    """Its observation is the number of steps taken; each step takes `seconds`."""

    def __init__(self, seconds: float):
        super().__init__(device="cpu")
        self.observation_spec = Composite(observation=Unbounded((1,)))
        self.action_spec, self.reward_spec = Unbounded((1,)), Unbounded((1,))
        self.seconds, self.steps = seconds, 0

    def _reset(self, tensordict=None, **kwargs):
        self.steps = 0
        return TensorDict({"observation": torch.zeros(1)}, [])

    def _step(self, tensordict):
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        self.steps += 1
        values = {"observation": torch.full((1,), float(self.steps)), "reward": torch.zeros(1)}
        return TensorDict(values | {"done": torch.tensor([False])}, [])

    def _set_seed(self, seed):
        return seed

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state_dict, **kwargs):
        self.steps = state_dict["steps"]
