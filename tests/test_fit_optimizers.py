"""Updates with any optimizer of torch are planned to the byte."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from rlrepro.fit import plan_update

from .own_updates import Tiny, learn, measured

OPTIMIZERS = "NAdam", "RAdam", "Adamax", "Adadelta", "Adagrad", "Adafactor", "ASGD", "RMSprop", "Rprop", "SGD", "AdamW"


def averaged(state, batch_size=32):
    learn(state, state.net(torch.zeros(batch_size, 64)).mean())
    state.ema.update_parameters(state.net)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_optimizer_of_torch_is_planned_to_the_byte(name):
    def make():
        state = Tiny()
        state.optimizer = getattr(torch.optim, name)(state.net.parameters())
        return state

    assert plan_update(make, averaged, device="cpu").stages["update"] == measured(make, averaged)


def unless_zero(state):
    kept = [weight.clone() for weight in state.net.parameters() if weight.any()]
    learn(state, state.net(torch.zeros(32, 64)).mean() + sum(weight.mean() for weight in kept))


def test_numbers_are_taken_not_to_be_all_zero():
    """As Prodigy asks before it copies the weights."""
    assert plan_update(Tiny, unless_zero, device="cpu").stages["update"] == measured(Tiny, unless_zero)


WEIGHT_BYTES = (64 * 64 + 64) * 4


def with_closure(state, batch_size=32):
    rows = torch.randn(batch_size, 64)

    def loss():
        state.optimizer.zero_grad()
        value = state.net(rows).square().mean()
        value.backward()
        return value

    state.optimizer.step(loss)


@pytest.mark.parametrize("options", [{"history_size": 10}, {"max_iter": 4, "history_size": 2}])
def test_lbfgs_is_planned_with_all_of_its_iterations(options):
    """Although numbers that are all ones meet its tolerances at once. An iteration near the minimum stores nothing, but
    its two vectors then take memory beside a full history."""

    def make():
        state = Tiny()
        state.optimizer = torch.optim.LBFGS(state.net.parameters(), **options)
        return state

    planned = plan_update(make, with_closure, device="cpu")
    unused = planned.stages["update"] - measured(make, with_closure)
    assert 0 <= unused <= 2 * WEIGHT_BYTES + 8 and "a full history" in planned.notes[0]


def test_gradients_that_are_sparse_are_planned_to_the_byte():
    def make():
        net = nn.Embedding(20_000, 32, sparse=True)
        return SimpleNamespace(net=net, optimizer=torch.optim.SparseAdam(net.parameters()))

    def step(state, batch_size=2000):
        learn(state, state.net(torch.arange(batch_size * 8).view(-1, 8)).sum())

    assert plan_update(make, step, device="cpu").stages["update"] == measured(make, step)
