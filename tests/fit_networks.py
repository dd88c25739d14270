"""Networks for testing plans, in the form that each library takes."""

from functools import partial

import numpy as np
import pytest
from gymnasium import spaces
from torch import nn

from rlrepro.cases.common.networks import NatureCNN, ResidualCNN
from rlrepro.cases.common.tianshou_ppo import ACTIONS, visual_networks
from rlrepro.cases.common.tianshou_vectors import FEATURES, DiscreteActor, VectorCritic, mlp
from rlrepro.fit import plan

FRAMES, VECTORS = spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Box(-1, 1, (FEATURES,), np.float32)
CHOICE = spaces.Discrete(ACTIONS)
EXACT = 0.01  # relative tolerance of tensors, for an LSTM's workspace, whose size only the operator knows
MARGIN = 0.15


class LSTM(nn.Module):
    """A row of 64 as 16 steps of 4 features: (..., 64) to (..., outputs)."""

    def __init__(self, outputs):
        super().__init__()
        self.steps, self.head = nn.LSTM(4, 64, batch_first=True), nn.Linear(64, outputs)

    def forward(self, rows):
        hidden = self.steps(rows.reshape(-1, 16, 4))[0][:, -1]
        return self.head(hidden).unflatten(0, rows.shape[:-1])


class Frames(nn.Module):
    """A network of frames, for a TensorDict's extra dimensions: (..., 4, 84, 84) uint8 to (..., outputs)."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, frames):
        return self.body(frames.flatten(0, -4).float() / 255).unflatten(0, frames.shape[:-3])


class RecurrentActor(DiscreteActor):
    def __init__(self):
        super().__init__(FEATURES, ACTIONS)
        self.body = LSTM(ACTIONS)


class RecurrentCritic(VectorCritic):
    def __init__(self):
        super().__init__(FEATURES)
        self.body = LSTM(1)


BODIES = {
    "mlp": partial(mlp, FEATURES),
    "nature": lambda outputs: Frames(NatureCNN(outputs)),
    "residual": lambda outputs: Frames(ResidualCNN(outputs)),
    "recurrent": LSTM,
}
TIANSHOU = {
    "mlp": lambda: (DiscreteActor(FEATURES, ACTIONS), VectorCritic(FEATURES)),
    "nature": lambda: visual_networks("nature"),
    "residual": lambda: visual_networks("residual"),
    "recurrent": lambda: (RecurrentActor(), RecurrentCritic()),
}


def space_of(name):
    return FRAMES if name in ("nature", "residual") else VECTORS


def make_plan(name, *, device="cpu", **arguments):
    return plan(*TIANSHOU[name](), space_of(name), CHOICE, device=device, **arguments)


def assert_close(planned, measured):
    for stage, (tensors, allocated) in measured.items():
        assert planned.stages[stage] == pytest.approx(tensors, rel=EXACT), stage
        assert allocated <= planned.needed[stage] <= (1 + MARGIN) * allocated, stage


def assert_exact(planned, measured):
    assert planned.stages.items() >= {stage: tensors for stage, (tensors, _) in measured.items()}.items()
