"""FactoredQ refuses networks and arguments for which it can't match the plain network."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from rlrepro.fixes import FactoredQ

from .test_factored_q import FEATURES, STATE, plain_network, plain_values, problem


class Noisy(nn.Linear):
    """A layer that may have more weights than a linear layer, like torchrl's NoisyLinear."""


class Skipping(nn.Module):
    def __init__(self):
        super().__init__()
        self.chain = plain_network(STATE + FEATURES)

    def forward(self, x):
        return self.chain(x + 1)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: FactoredQ(0, 2), "state_dim must be at least 1, found 0"),
        (lambda: FactoredQ(4, 2, ()), "hidden must contain at least one layer"),
        (lambda: FactoredQ(4, 2, (8, 0)), "hidden must be at least 1, found 0"),
        (lambda: FactoredQ(4, 2, chunk=0), "chunk must be 'auto' or a number of actions"),
        (lambda: FactoredQ(4, 2, memory_limit=0), "memory_limit must be at least 1 byte"),
        (lambda: FactoredQ.from_sequential(plain_network(), 10), "more than state_dim=10 inputs"),
        (lambda: FactoredQ.from_sequential(nn.Sequential(nn.ReLU()), 3), "begins with an nn.Linear"),
        (lambda: FactoredQ.from_sequential(Skipping(), STATE), "expected a chain of layers that returns one value"),
        (
            lambda: FactoredQ.from_sequential(nn.Sequential(nn.Linear(10, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), 7),
            "each row must be processed independently.*BatchNorm1d",
        ),
        (
            lambda: FactoredQ.from_sequential(nn.Sequential(nn.Linear(10, 1)), 7),
            "expected a network with a hidden layer",
        ),
        (
            lambda: FactoredQ.from_sequential(nn.Sequential(nn.Linear(10, 4), nn.ReLU(), nn.Linear(4, 2)), 7),
            "expected a chain of layers that returns one value",
        ),
        (lambda: FactoredQ.from_sequential(nn.Sequential(Noisy(10, 4), nn.ReLU(), nn.Linear(4, 1)), 7), "found Noisy"),
        (
            lambda: FactoredQ(7, 3, (4,)).copy_to(
                nn.Sequential(nn.Linear(10, 4, bias=False), nn.ReLU(), nn.Linear(4, 1))
            ),
            "expected a network of the same layers",
        ),
        (lambda: FactoredQ(4, 2).copy_to(plain_network()), "expected a network of the same layers"),
    ],
)
def test_an_unsuitable_network_is_refused(make, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        make()


def test_wrong_tables_masks_and_limits_are_refused():
    factored = FactoredQ.from_sequential(plain_network(), STATE)
    states, actions, available = problem()
    with pytest.raises(ValueError, match=r"actions must be torch.float64 on cpu.*found torch.float32 on cpu"):
        factored(states, actions.float())
    with pytest.raises(ValueError, match=r"found torch\.float64 on meta"):
        factored(states, actions.to("meta"))
    with pytest.raises(ValueError, match=r"one for each of the 5 states \(B, A, d\); found \(4, 40, 3\)"):
        factored(states, actions.expand(4, -1, -1))
    with pytest.raises(ValueError, match=r"actions must be of shape \(count, 3\), found \(40, 2\)"):
        factored(states, actions[:, :2])
    for method in (factored, factored.best, factored.soft_values):
        with pytest.raises(ValueError, match=r"actions must be of shape \(count, 3\), found \(3,\)"):
            method(states, actions[0])
    with pytest.raises(ValueError, match="no actions to choose from"):
        factored.best(states, actions[:0])
    with pytest.raises(ValueError, match="temperature must be positive, found 0"):
        factored.soft_values(states, actions, temperature=0)
    available[2] = False
    with pytest.raises(ValueError, match=r"every state needs an available action; states \[2\] have none"):
        factored.best(states, actions, available)
    with pytest.raises(ValueError, match=r"available must be bool of shape \(5, 40\)"):
        factored.soft_values(states, actions, available.float())
    with pytest.raises(ValueError, match=r"1 action at a time for 5 states takes .* memory_limit=1,000"):
        FactoredQ.from_sequential(plain_network(), STATE, memory_limit=1000)(states, actions)
    with pytest.raises(ValueError, match=r"40 actions at a time .*use smaller chunks"):
        FactoredQ.from_sequential(plain_network(), STATE, memory_limit=20_000, chunk=40)(states, actions)


class WithParallelLayer(nn.Module):
    """A chain with a second layer in parallel."""

    def __init__(self):
        super().__init__()
        self.chain, self.parallel = plain_network(), nn.Linear(STATE + FEATURES, 1, dtype=torch.float64)

    def forward(self, pairs):
        return self.chain(pairs) + self.parallel(pairs)


def test_a_layer_in_parallel_to_the_chain_is_refused():
    with pytest.raises(ValueError, match="expected a chain of layers that returns one value"):
        FactoredQ.from_sequential(WithParallelLayer(), STATE)


@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.weight_norm.* is deprecated")
@pytest.mark.parametrize("index", [0, 2, 4])
@pytest.mark.parametrize(
    "change",
    [
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        lambda layer: prune.random_unstructured(layer, "weight", 0.3),
    ],
)
def test_weights_that_are_computed_in_each_call_are_refused(change, index):
    net = plain_network()
    change(net[index])
    with pytest.raises(ValueError, match=r"(?s)found \w*Linear\(.*computes its weights.*remove_parametrizations"):
        FactoredQ.from_sequential(net, STATE)


def test_a_network_is_converted_after_its_parametrizations_are_removed():
    net, (states, actions, _) = plain_network(), problem()
    parametrizations.weight_norm(net[2])
    parametrize.remove_parametrizations(net[2], "weight")
    assert torch.allclose(FactoredQ.from_sequential(net, STATE)(states, actions), plain_values(net, states, actions))


def test_a_layer_whose_rows_depend_on_each_other_is_refused():
    net = nn.Sequential(nn.Linear(6, 8), nn.Softmax(dim=0), nn.Linear(8, 1))
    with pytest.raises(ValueError, match="one value per row, by that row alone"):
        FactoredQ.from_sequential(net, 2)


def test_a_layer_that_is_used_twice_is_refused():
    shared = nn.Linear(8, 8)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), shared, nn.ReLU(), shared, nn.ReLU(), nn.Linear(8, 1))
    with pytest.raises(ValueError, match="layers that share no weights"):
        FactoredQ.from_sequential(net, 2)
