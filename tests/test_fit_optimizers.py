"""Updates with any optimizer of torch are planned to the byte."""

import pytest
import torch

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
