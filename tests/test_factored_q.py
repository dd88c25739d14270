"""FactoredQ has the plain network's values and gradients, within its memory limit."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rlrepro.fixes import FactoredQ, expected_minimum
from rlrepro.lab import peak_memory

STATE, FEATURES = 7, 3
SMALL = 200_000  # bytes: a limit that splits these sizes into several chunks


def plain_network(*widths, activation=nn.ReLU):
    widths = [STATE + FEATURES, *(widths or (16, 12))]
    pairs = itertools.pairwise(widths)
    layers = [layer for inputs, outputs in pairs for layer in (nn.Linear(inputs, outputs), activation())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1)).double()


def plain_values(net, states, actions):
    """As Pearl computes them, with the state repeated for every action."""
    states = states.unsqueeze(1).expand(-1, len(actions), -1)
    return net(torch.cat([states, actions.expand(len(states), -1, -1)], dim=-1)).squeeze(-1)


def problem(rows=5, count=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    available = torch.rand(rows, count, generator=generator) < 0.3
    available[:, 0] = True
    return draw(rows, STATE), draw(count, FEATURES), available


def gradients(module, loss):
    module.zero_grad()
    loss.backward()
    return [weight.grad.clone() for weight in module.parameters()]


def plain_gradients(net):
    """The plain network's gradients, in the order of the factored network's parameters."""
    first_weight, *rest = [weight.grad for weight in net.parameters()]
    states, actions = first_weight.split([STATE, FEATURES], dim=1)
    bias, *rest = rest
    return [states, bias, actions, *rest]


@settings(max_examples=25, deadline=None)
@given(
    chunk=st.sampled_from([1, 3, 40, 1000, "auto"]),
    count=st.integers(1, 50),
    activation=st.sampled_from([nn.ReLU, nn.Tanh, nn.ELU]),
    limit=st.sampled_from([60_000, 10**9]),
)
def test_values_and_gradients_are_the_plain_networks(chunk, count, activation, limit):
    net = plain_network(activation=activation)
    factored = FactoredQ.from_sequential(net, STATE, chunk=chunk, memory_limit=10**9 if chunk != "auto" else limit)
    states, actions, _ = problem(count=count)
    weights = torch.randn(len(states), count, dtype=torch.float64)
    net.zero_grad()
    expected = plain_values(net, states, actions)
    (expected * weights).sum().backward()
    values = factored(states, actions)
    assert torch.allclose(values, expected, atol=1e-12)
    factored_gradients = gradients(factored, (values * weights).sum())
    for gradient, plain in zip(factored_gradients, plain_gradients(net), strict=True):
        assert torch.allclose(gradient, plain, atol=1e-10)


@pytest.mark.parametrize("limit", [SMALL, 10**9])
@pytest.mark.parametrize("masked", [False, True])
def test_reductions_and_their_gradients_equal_those_over_all_values(limit, masked):
    net = plain_network()
    factored = FactoredQ.from_sequential(net, STATE, memory_limit=limit)
    states, actions, available = problem(count=300)
    allowed = available if masked else None
    values = plain_values(net, states, actions).masked_fill(~available & masked, -torch.inf)
    best = factored.best(states, actions, allowed)
    assert torch.equal(best.indices, values.argmax(dim=1))
    assert torch.allclose(best.values, values.amax(dim=1))
    expected_soft = 0.5 * (values / 0.5).logsumexp(dim=1)
    soft_values = factored.soft_values(states, actions, allowed, temperature=0.5)
    assert torch.allclose(soft_values, expected_soft)
    for reduced, expected in ((best.values, values.amax(dim=1)), (soft_values, expected_soft)):
        net.zero_grad()
        expected.sum().backward(retain_graph=True)
        for gradient, plain in zip(gradients(factored, reduced.sum()), plain_gradients(net), strict=True):
            assert torch.allclose(gradient, plain, atol=1e-10)


def test_the_expectation_under_a_policy_uses_the_smaller_of_two_critics():
    nets = [plain_network(), plain_network(9)]
    critics = [FactoredQ.from_sequential(net, STATE, memory_limit=SMALL) for net in nets]
    states, actions, _ = problem(count=300)
    policy = torch.rand(len(states), 300, dtype=torch.float64).softmax(dim=1)
    values = torch.minimum(*(plain_values(net, states, actions) for net in nets))
    assert torch.allclose(expected_minimum(critics, states, actions, policy), (policy * values).sum(dim=1))


@pytest.mark.parametrize("limit", [SMALL, 10**9])
def test_each_state_may_have_its_own_table(limit):
    net = plain_network()
    factored = FactoredQ.from_sequential(net, STATE, memory_limit=limit)
    states, _, available = problem(count=300)
    tables = torch.randn(len(states), 300, FEATURES, dtype=torch.float64)
    expected = net(torch.cat([states.unsqueeze(1).expand(-1, 300, -1), tables], dim=-1)).squeeze(-1)
    assert torch.allclose(factored(states, tables), expected)
    allowed = expected.masked_fill(~available, -torch.inf)
    assert torch.equal(factored.best(states, tables, available).indices, allowed.argmax(dim=1))


def test_one_action_per_state():
    net = plain_network()
    states, actions, _ = problem(count=5)
    values = FactoredQ.from_sequential(net, STATE).of(states, actions)
    assert torch.allclose(values, net(torch.cat([states, actions], dim=1)).squeeze(1))


@pytest.mark.slow
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("limit", [1, 4, 16])  # MiB
def test_the_peak_stays_within_the_limit(grad, limit):
    factored = FactoredQ(64, 2, (128, 96, 32), memory_limit=limit * 2**20)
    states, actions = torch.randn(16, 64), torch.randn(2000, 2)

    def update():
        with torch.set_grad_enabled(grad):
            values = factored(states, actions)
        if grad:
            values.square().mean().backward()

    results = 6 * 4 * 16 * 2000  # (B, A): the chunks, all values, their squares and gradients
    weights = 4 * sum(weight.nbytes for weight in factored.parameters())
    peak = peak_memory(update).peak_bytes
    assert peak <= limit * 2**20 + results + weights
    if grad and limit == 16:
        without_limit = 4 * 16 * 2000 * (128 + 96 + 32)
        assert peak < without_limit / 1.5


def test_activations_that_fit_are_not_recomputed(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "rlrepro.fixes.large_actions.action_chunks.checkpoint", lambda fn, *inputs, **_: calls.append(fn) or fn(*inputs)
    )
    states, actions, _ = problem(count=300)
    for limit, recomputes in ((10**9, False), (SMALL, True)):
        calls.clear()
        FactoredQ.from_sequential(plain_network(), STATE, memory_limit=limit)(states, actions)
        assert bool(calls) is recomputes


def test_it_converts_to_a_plain_network_and_back():
    net = plain_network(activation=nn.Tanh)
    factored = FactoredQ.from_sequential(nn.Sequential(net[:2], nn.Sequential(net[2:])), STATE)
    rows = torch.randn(4, STATE + FEATURES, dtype=torch.float64)
    assert torch.allclose(factored.to_sequential()(rows), net(rows))
    copied = plain_network(activation=nn.Tanh)
    factored.copy_to(copied)
    assert all(map(torch.equal, net.state_dict().values(), copied.state_dict().values()))


@pytest.mark.parametrize(
    "layers",
    [
        [nn.PReLU(16), nn.Linear(16, 1)],
        [nn.GroupNorm(4, 16), nn.ReLU(), nn.Linear(16, 1)],
        [nn.Softmax(dim=1), nn.Linear(16, 1)],
        [nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh(), nn.ReLU(), nn.Linear(8, 1)],
        [nn.Linear(16, 1), nn.Flatten(0)],
        [shared := nn.ReLU(), nn.Linear(16, 16), shared, nn.Linear(16, 1)],
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_layers_compute_the_plain_networks_values(layers, dtype):
    net = nn.Sequential(nn.Linear(STATE + FEATURES, 16), *layers).to(dtype)
    factored = FactoredQ.from_sequential(net, STATE)
    states, actions, _ = problem(count=16)
    states, actions = states.to(dtype), actions.to(dtype)
    rows = torch.cat([states.repeat_interleave(16, 0), actions.repeat(5, 1)], dim=1)
    expected, values = net(rows).reshape(5, 16), factored(states, actions)
    assert torch.allclose(values, expected, atol=1e-12 if dtype == torch.float64 else 0.1)
    values.sum().backward()


def test_a_frozen_network_stays_frozen_and_its_plan_is_the_same():
    frozen = plain_network(activation=nn.GELU)
    kept_bytes = FactoredQ.from_sequential(frozen, STATE).kept_bytes
    factored = FactoredQ.from_sequential(frozen.requires_grad_(False), STATE)
    assert not any(weight.requires_grad for weight in factored.parameters())
    assert factored.kept_bytes == kept_bytes


def test_converting_a_network_leaves_the_random_generator_alone():
    net = plain_network()
    before = torch.get_rng_state()
    FactoredQ.from_sequential(net, STATE).to_sequential()
    assert torch.equal(torch.get_rng_state(), before)


def test_soft_values_under_autocast():
    states, actions, available = problem()
    factored = FactoredQ(STATE, FEATURES, (16,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert factored.soft_values(states.float(), actions.float(), available).isfinite().all()


def test_it_is_initialized_as_a_plain_network():
    torch.manual_seed(3)
    net = plain_network().float()
    torch.manual_seed(3)
    factored = FactoredQ(STATE, FEATURES, (16, 12))
    assert all(map(torch.equal, net.to(torch.float32).parameters(), factored.to_sequential().parameters()))


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_frozen_parameters_of_the_first_layer_stay_frozen(name):
    net = plain_network()
    getattr(net[0], name).requires_grad_(False)
    factored = FactoredQ.from_sequential(net, STATE)
    again = factored.to_sequential()
    learning = [factored.action_layer.weight.requires_grad, factored.state_layer.bias.requires_grad]
    assert (
        learning == [again[0].weight.requires_grad, again[0].bias.requires_grad] == [name != "weight", name != "bias"]
    )
