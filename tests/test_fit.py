"""Plans for tianshou against real updates: the same update, counted and measured."""

import random

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlrepro.cases.common.tianshou_ppo import ACTIONS
from rlrepro.cases.common.tianshou_vectors import FEATURES, DiscreteActor, GaussianActor, VectorCritic, mlp
from rlrepro.cases.two_batch_sizes.error_study.library_runs import run_tianshou
from rlrepro.fit import plan

from .fit_networks import CHOICE, TIANSHOU, VECTORS, assert_close, assert_exact, make_plan, space_of

SLOW_RESIDUAL = pytest.param("residual", marks=pytest.mark.slow)
FASTEST_FIRST = ["mlp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("nature", "residual", "recurrent"))]


def measured_tianshou(name, rollout, max_batchsize, batch_size, library="tianshou-ppo") -> dict:
    sizes = {"rollout": rollout, "max_batchsize": max_batchsize, "batch_size": batch_size}
    return run_tianshou(library, TIANSHOU[name], space_of(name), CHOICE, torch.optim.Adam, **sizes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "nature", SLOW_RESIDUAL])
@pytest.mark.parametrize("sizes", [(256, 64, 64), (127, 64, 100), (40, 256, 64)])
def test_tensors_are_planned_to_the_byte(name, sizes):
    rollout, max_batchsize, batch_size = sizes
    planned = make_plan(name, rollout=rollout, max_batchsize=max_batchsize, batch_size=batch_size)
    assert_exact(planned, measured_tianshou(name, *sizes))


class Observed(nn.Module):
    """A network with a normaliser before it, whose buffers are not weights."""

    def __init__(self, outputs):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 128), nn.Tanh(), nn.Linear(128, outputs))
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.register_buffer("std", torch.ones(FEATURES))
        self.unused, self.last = nn.Linear(500, 500), None

    def forward(self, rows):
        self.last = self.body((rows - self.mean) / self.std)
        return self.last


def with_bodies(actor_body, critic_body):
    actor, critic = DiscreteActor(FEATURES, ACTIONS), VectorCritic(FEATURES)
    actor.body, critic.body = actor_body, critic_body
    return actor, critic


def shared_trunk():
    trunk = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU())
    return with_bodies(nn.Sequential(trunk, nn.Linear(512, ACTIONS)), nn.Sequential(trunk, nn.Linear(512, 1)))


def already_used():
    actor, critic = with_bodies(Observed(ACTIONS), Observed(1))
    actor(np.zeros((2, FEATURES), np.float32))
    return actor, critic


def batch_norms():
    return with_bodies(*(nn.Sequential(nn.BatchNorm1d(FEATURES), mlp(FEATURES, size)) for size in (ACTIONS, 1)))


@pytest.mark.parametrize(
    "networks, continuous",
    [
        (shared_trunk, False),
        (already_used, False),
        (batch_norms, False),
        (lambda: (DiscreteActor(FEATURES, ACTIONS), VectorCritic(FEATURES).double().float()), False),
        (lambda: (GaussianActor(FEATURES, 50), VectorCritic(FEATURES)), True),
    ],
    ids=["shared trunk", "normaliser, used before", "BatchNorm", "plain", "Gaussian"],
)
def test_other_networks_are_planned_as_exactly(networks, continuous):
    space = spaces.Box(-1, 1, (50,)) if continuous else CHOICE
    sizes = {"rollout": 130, "max_batchsize": 32, "batch_size": 32}
    measured = run_tianshou("tianshou-ppo", networks, VECTORS, space, torch.optim.Adam, **sizes)
    planned = plan(*networks(), VECTORS, space, **sizes, device="cpu")
    for stage, (tensors, _) in measured.items():
        assert planned.stages[stage] == pytest.approx(tensors, rel=1e-3), stage


@pytest.mark.slow
def test_networks_keep_their_precision_by_default():
    class Double(DiscreteActor):
        def forward(self, obs, state=None, info=None, **_):
            return self.body(torch.as_tensor(obs).double()), state

    class DoubleCritic(VectorCritic):
        def forward(self, obs, **_):
            return self.body(torch.as_tensor(obs).double())

    double = Double(FEATURES, ACTIONS).double(), DoubleCritic(FEATURES).double()
    in_double = plan(*double, VECTORS, CHOICE, rollout=64)
    in_single = make_plan("mlp", rollout=64, device="cuda")
    assert in_double.stages["learn"] > 1.7 * in_single.stages["learn"]


@pytest.mark.slow
def test_many_chunks_are_extrapolated_to_the_byte():
    planned = make_plan("mlp", rollout=1001, max_batchsize=16, batch_size=100)
    assert_exact(planned, measured_tianshou("mlp", 1001, 16, 100))


def random_sizes(name, seed):
    rng = random.Random(f"{name} {seed}")
    largest = {"nature": 160, "residual": 50}.get(name, 800)
    return rng.randint(16, largest), rng.randint(4, largest), rng.randint(2, largest)


@pytest.mark.slow
@pytest.mark.parametrize("name", FASTEST_FIRST)
def test_sizes_planned_to_fit_do_fit(name):
    for seed in range(13):  # for each of the four networks
        rollout, max_batchsize, batch_size = sizes = random_sizes(name, seed)
        planned = make_plan(name, rollout=rollout, max_batchsize=max_batchsize, batch_size=batch_size)
        assert_close(planned, measured_tianshou(name, *sizes))


@pytest.mark.slow
def test_a2c_is_planned_by_its_own_code():
    sizes, library = {"rollout": 300, "max_batchsize": 64, "batch_size": 64}, "tianshou-a2c"
    assert_close(make_plan("mlp", **sizes, library=library), measured_tianshou("mlp", **sizes, library=library))
