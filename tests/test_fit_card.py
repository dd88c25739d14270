"""Memory that only a plan for a card has: copies, the optimizer's operators, the libraries' workspaces."""

import pytest
import torch
from torch import nn

from rlrepro.cases.common.tianshou_ppo import ACTIONS, ppo, preprocess, visual_rollout
from rlrepro.cases.common.tianshou_vectors import FEATURES, DiscreteActor, VectorCritic, mlp, vector_rollout
from rlrepro.fit import operators, plan, plan_update, planner
from rlrepro.fit.matrix_products import NONE
from rlrepro.fit.update_planner import RESERVE
from rlrepro.lab import VirtualCard

from .fit_networks import CHOICE, FRAMES, MARGIN, TIANSHOU, VECTORS, make_plan, space_of

MIB = 2**20


@pytest.mark.slow
def test_a_card_holds_a_copy_of_the_observations():
    on_card, on_cpu = (make_plan("mlp", rollout=64, envs=4096, device=device) for device in ("cuda", "cpu"))
    assert on_card.stages["collect"] - on_cpu.stages["collect"] == 4096 * FEATURES * 4


@pytest.mark.slow
def test_on_a_card_the_optimizer_works_on_all_parameters_at_once():
    class Deep(DiscreteActor):
        def __init__(self):
            super().__init__(FEATURES, ACTIONS)
            self.body = nn.Sequential(
                mlp(FEATURES, 512), *(nn.Linear(512, 512) for _ in range(9)), nn.Linear(512, ACTIONS)
            )

    on_card, on_cpu = (
        plan(Deep(), VectorCritic(FEATURES), VECTORS, CHOICE, rollout=4, batch_size=2, device=device).stages["learn"]
        for device in ("cuda", "cpu")
    )
    assert on_card - on_cpu > 7 * 512 * 512 * 4  # a square root of each layer at once, on the CPU one at a time


def test_the_workspaces_of_a_cards_libraries_are_in_every_margin(monkeypatch):
    monkeypatch.setattr(operators, "workspace_bytes", lambda device: NONE)
    without = make_plan("mlp", rollout=64)
    monkeypatch.setattr(operators, "workspace_bytes", lambda device: dict.fromkeys(NONE, 16 * MIB))
    with_workspaces = make_plan("mlp", rollout=64)
    assert with_workspaces.stages == without.stages
    for stage, needed in with_workspaces.needed.items():  # two of forward passes, one of backward passes
        assert needed - without.needed[stage] == pytest.approx(3 * 16 * MIB * (1 + RESERVE), abs=2), stage


def test_operators_are_measured_on_the_device_that_is_planned_for(monkeypatch):
    devices = []
    monkeypatch.setattr(planner, "resolve_device", lambda device: devices.append(device) or torch.device("cpu"))
    for device in ("cpu", "cuda"):
        make_plan("mlp", rollout=64, device=device)
    assert devices == ["cpu", "auto"]  # without a GPU, a plan for a card uses what this machine can measure


def test_layers_that_a_card_has_other_operators_for_are_measured_on_the_cpu(monkeypatch):
    devices = []
    monkeypatch.setattr(planner, "resolve_device", lambda device: devices.append(device) or torch.device("cpu"))
    make_plan("recurrent", rollout=64, device="cuda")
    assert devices == ["cpu"]


def test_the_accelerator_of_torch_is_the_planned_gpu(monkeypatch):
    def no_driver():
        raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)  # as in a CPU build
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", no_driver)  # as in a CUDA build without a GPU

    def make():
        device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
        return nn.Linear(64, 64).to(device)

    def step(network):
        assert not torch.cuda.is_current_stream_capturing()  # torch 2.11's optimizers ask this
        network(torch.zeros(8, 64, device=network.weight.device)).sum().backward()

    assert plan_update(make, step).stages["update"] > 2 * 64 * 64 * 4  # weights and gradients


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["mlp", "nature", "residual"])
def test_a_plan_for_a_card_holds_on_it(name):
    rollout, max_batchsize, batch_size = 2048, 256, 256
    planned = make_plan(name, rollout=rollout, max_batchsize=max_batchsize, batch_size=batch_size, device="cuda")
    with VirtualCard(None, device="cuda") as card:  # frees what earlier work has left
        before = card.live_bytes
    actor, critic = (net.to("cuda") for net in TIANSHOU[name]())
    rows = visual_rollout(rollout) if space_of(name) is FRAMES else vector_rollout(rollout)
    algorithm = ppo(actor, critic, max_batchsize=max_batchsize)
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        algorithm._update_with_batch(preprocess(algorithm, *rows), batch_size, 1)
        measured = torch.cuda.max_memory_allocated() - before
    assert measured <= planned.peak_bytes <= (1 + MARGIN) * measured
