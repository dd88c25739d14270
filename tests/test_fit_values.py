"""What a plan assumes about numbers, about the GPU that a script asks for, and about where memory grows."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from rlrepro.fit import CannotPlan, plan_update, reads
from rlrepro.lab import VirtualCard, peak_memory

GUARDS = {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "either": lambda loss: torch.isnan(loss) | torch.isinf(loss),
    "any": lambda loss: torch.isnan(loss).any(),
    "math": lambda loss: math.isnan(loss.detach()),
    "isfinite": lambda loss: not torch.isfinite(loss),
    "not isfinite": lambda loss: ~torch.isfinite(loss),
    "logical not": lambda loss: torch.logical_not(torch.isfinite(loss)).any(),
    "not all": lambda loss: ~torch.isfinite(loss.expand(3)).all(),
    "itself": lambda loss: loss != loss,
    "not itself": lambda loss: not (loss == loss).all(),
    "a sum": lambda loss: torch.isnan(loss.expand(3)).sum() > 0,
    "a sum of all": lambda loss: torch.isfinite(loss.expand(3)).sum() < 3,
    "an integer": lambda loss: torch.isnan(loss).int().item(),
    "a float": lambda loss: torch.isnan(loss).float().mean() > 0.5,
    "a count": lambda loss: torch.count_nonzero(torch.isinf(loss)) != 0,
    "equal": lambda loss: torch.isnan(loss).item() == True,  # noqa: E712
    "infinity": lambda loss: loss == float("inf"),
    "absolute value": lambda loss: loss.abs() == math.inf or not loss < math.inf,
    "several": lambda loss: torch.stack([torch.isnan(loss), torch.isinf(loss)]).any(),
    "both": lambda loss: ~(torch.isfinite(loss) & (loss == loss)),
    "a view": lambda loss: torch.isnan(loss).view(1).cpu(),
    "in place": lambda loss: torch.isfinite(loss).logical_not_(),
}
CALLS = {
    "a default device": """
        torch.set_default_device("cuda")
        assert torch.zeros(3).is_cuda and nn.Linear(2, 2).weight.is_cuda and torch.zeros(3, device="cpu").is_cpu""",
    "a device for a block": """
        with torch.device("cuda"):
            assert torch.zeros(3).is_cuda
        assert torch.zeros(3).is_cpu""",
    "the GPU's properties": """
        assert torch.cuda.get_device_properties(0).total_memory >= torch.cuda.mem_get_info()[0] > 0
        assert torch.cuda.get_device_capability() >= (7, 0)""",
    "a generator": 'torch.randn(3, device="cuda", generator=torch.Generator("cuda").manual_seed(1))',
    "a stream": 'torch.zeros(3, device="cuda").record_stream(torch.cuda.current_stream())',
    "a tensor of tensors": 'torch.tensor([torch.zeros(()), torch.ones(())], device="cuda")',
    "workers that load": """
        data = torch.utils.data.TensorDataset(torch.zeros(8, 4))
        for (rows,) in torch.utils.data.DataLoader(data, 4, True, num_workers=2, persistent_workers=True):
            rows.cuda()""",
    "several GPUs": 'nn.DataParallel(nn.Linear(4, 2).cuda())(torch.zeros(8, 4, device="cuda"))',
}


def make():
    net = nn.Linear(256, 1024).to("cuda")
    return net, torch.optim.Adam(net.parameters())


def learn(state, batch_size=64, guard=lambda loss: False):
    net, optimizer = state
    loss = net(torch.rand(batch_size, 256, device="cuda")).square().mean()
    if guard(loss):
        return loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_a_loss_is_taken_to_be_finite(guard):
    guarded = plan_update(make, lambda state: learn(state, guard=guard))
    assert guarded.stages == plan_update(make, learn).stages and not guarded.notes


def test_what_is_known_ends_with_a_change():
    def step(state):
        is_nan = torch.isnan(learn(state))
        assert not is_nan
        is_nan.fill_(True)
        assert is_nan and torch.zeros(3, device="cuda").sum() > 0  # unknown values are true

    plan_update(make, step)


def test_an_optimizer_that_does_not_step_is_noted():
    (note,) = plan_update(make, lambda state: learn(state, guard=lambda loss: loss > 0)).notes
    assert "this optimizer never stepped" in note and "return net, torch.optim.Adam(net.parameters())" in note


def test_one_of_several_optimizers_that_does_not_step_is_noted():
    def make_two():
        return SimpleNamespace(actor=make(), critic=make())

    def step(state):
        learn(state.critic)
        learn(state.actor, guard=lambda kl: kl > 0.015)  # early stopping, which reads 1

    (note,) = plan_update(make_two, step).notes
    assert "this optimizer never stepped" in note
    assert plan_update(make_two, lambda state: [learn(state.critic), learn(state.actor)]).notes == ()


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
def test_numbers_can_be_read_without_gradients(without_gradients):
    def step(state):
        loss = learn(state)
        with without_gradients():
            assert loss.sum().item() == float(loss) == int(loss) == 1 and bool((loss > 0).all()) is True
            assert not torch.isnan(loss * 2) and (loss == loss).all() and torch.isfinite(loss * 2)
            with reads(0.0):
                assert (loss * 2).item() == 0.0 and not loss

    assert plan_update(make, step).notes == ()


def test_a_loss_can_be_formatted(capsys):
    plan_update(make, lambda state: print(f"loss {learn(state):.3f}"))
    assert "loss 1.000" in capsys.readouterr().out


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_script_may_ask_about_its_gpu(call):
    source = compile("if True:" + call if "\n" in call else call, "calls", "exec")

    def step(state):
        exec(source, {"torch": torch, "nn": nn})
        learn(state)

    assert plan_update(make, step).stages["update"] > 0
    assert torch.get_default_device().type == "cpu" and torch.zeros(1).is_cpu
    assert plan_update(make, learn).stages["update"] > 0


def test_the_line_that_collects_tensors_is_named():
    history = []

    def step(state):
        history.append(learn(state).detach().expand(1000).clone())  # this line

    with pytest.raises(CannotPlan, match=r"each update leaves 4,000 more bytes(.|\n)*# this line"):
        plan_update(make, step)


@pytest.mark.slow
def test_a_cpu_casts_arguments_of_mixed_dtypes_in_memory_of_their_own():
    def make_layer():
        return (nn.Linear(256, 1024),)

    def step(state, batch_size):
        (layer,) = state
        alive = torch.ones(batch_size, 1024, dtype=torch.bool)
        (layer(torch.rand(batch_size, 256)) * alive).mean().backward()
        layer.zero_grad()

    def run():
        state = make_layer()
        for _ in range(2):
            step(state, 20_000)

    planned = plan_update(make_layer, step, batch_size=20_000, device="cpu")
    assert peak_memory(run, device="cpu").peak_bytes <= planned.peak_bytes


CONVERSIONS = {
    "as_tensor": torch.as_tensor,
    "from_numpy": torch.from_numpy,
    "FloatTensor": torch.FloatTensor,
    "a copy": torch.tensor,
    "another dtype": lambda array: torch.FloatTensor(array.astype(np.float64)),
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_on_a_cpu_a_tensor_shares_the_memory_of_its_array(convert):
    def step(net):
        net(convert(np.random.rand(4096, 8).astype(np.float32)))

    with VirtualCard(None, device="cpu") as card:
        step(nn.Linear(8, 8))
    assert plan_update(lambda: nn.Linear(8, 8), step, device="cpu").stages["update"] == card.peak_bytes


def test_memory_that_waits_for_the_garbage_collector_is_noted():
    def step(net):
        cycle = [torch.rand(2**18, 8)]
        cycle.append(cycle)

    (note,) = plan_update(lambda: nn.Linear(8, 8), step, device="cpu").notes
    assert "an update leaves 8.0 MiB in reference cycles" in note


def test_gradients_of_two_heads_are_added_in_place():
    def make_networks():
        return nn.Sequential(nn.Linear(64, 1024), nn.ReLU()), nn.Linear(1024, 8), nn.Linear(1024, 1)

    def step(networks, batch_size):
        body, actor, critic = networks
        features = body(torch.rand(batch_size, 64))
        (actor(features).logsumexp(1).mean() + critic(features).square().mean()).backward()
        for network in networks:
            network.zero_grad()

    def run():
        networks = make_networks()
        for _ in range(2):
            step(networks, 2048)

    measured = peak_memory(run, device="cpu").peak_bytes
    assert plan_update(make_networks, step, batch_size=2048, device="cpu").stages["update"] == measured
    with VirtualCard(1, device="cpu") as card:
        run()
    assert card.peak_bytes == measured


WITHOUT_MEMORY = {
    "created there": lambda device: nn.Linear(256, 1024, device="meta"),
    "moved there": lambda device: nn.Linear(256, 1024).to(device).to("meta"),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("create", WITHOUT_MEMORY.values(), ids=WITHOUT_MEMORY)
def test_the_meta_device_takes_no_memory(create, device):
    def make_networks():
        shape = create(device)
        return nn.Linear(256, 1024).to(device), shape

    def step(networks):
        net, shape = networks
        assert shape.weight.is_meta and shape.weight.device.type == "meta" and net.weight.device.type == device
        assert shape(torch.rand(8, shape.in_features).to("meta")).device == torch.device("meta")
        with torch.device("meta"):
            assert torch.zeros(10**9).is_meta
        net(torch.rand(8, 256, device=device))

    def make_from_shape():
        return create(device).to_empty(device=device), nn.Linear(1, 1, device="meta")

    one = 4 * (256 * 1024 + 1024)
    assert plan_update(make_networks, step, device=device).stages["update"] < 1.1 * one
    assert plan_update(make_from_shape, step, device=device).stages["update"] < 1.1 * one
