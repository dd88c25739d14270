"""Plans of recurrent layers, as cuDNN runs them on a GPU: the byte counts are an H200's."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad
from torch.utils.checkpoint import checkpoint

from rlrepro.fit import plan_update
from rlrepro.fit.cudnn_recurrent import LARGE, RecurrentLayer, _measured
from rlrepro.fit.update_planner import RESERVE

LAYERS = {  # (kind, dtype, layers, directions, hidden, steps, rows, inputs, dropout): (workspace, reserve)
    ("LSTM", "float32", 1, 1, 64, 48, 1000, 2, 0.0): (268_944_448, 61_440_256),
    ("LSTM", "float64", 1, 2, 48, 6, 777, 5, 0.0): (49_356_768, 17_902_336),
    ("GRU", "float64", 2, 2, 48, 6, 777, 5, 0.0): (64_224_608, 46_545_664),
    ("RNN", "bfloat16", 3, 1, 32, 16, 3000, 8, 0.0): (41_520_832, 15_360_256),
    ("LSTM", "float16", 3, 2, 48, 6, 777, 5, 0.3): (68_101_184, 15_440_896),
    ("GRU", "float32", 2, 1, 48, 6, 777, 5, 0.3): (35_853_216, 11_664_608),
    ("LSTM", "float64", 3, 1, 64, 12, 2000, 2, 0.3): (130_673_536, 209_280_256),
}


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_layers_that_were_not_fitted_to_are_predicted(layer):
    kind, dtype, *sizes, dropout = layer
    predicted = RecurrentLayer(kind, getattr(torch, dtype), *sizes, dropout=dropout)
    workspace, reserve = LAYERS[layer]
    assert abs(predicted.reserve_bytes - reserve) < 512  # the allocator's unit
    assert 0.95 < predicted.workspace_bytes / workspace < 1.05


def test_layers_need_what_was_measured():
    names = ("layers", "directions", "hidden", "steps", "rows", "inputs")
    for row in _measured():
        sizes = (row["kind"], getattr(torch, row["dtype"]), *(row[name] for name in names))
        for column in ("training", "evaluation"):
            if row[column] > LARGE:
                layer = RecurrentLayer(*sizes, training=column == "training")
                assert 1 - 1e-6 <= layer.workspace_bytes / row[column] <= 1.1, layer


ROWS, STEPS, INPUTS, HIDDEN = 512, 16, 4, 16
OUTPUTS, SEQUENCE = ROWS * STEPS * HIDDEN * 4, ROWS * STEPS * INPUTS * 4


def planned(run, **options):
    """(live tensors, and what is needed on top of them) of a pass of a GRU with two layers."""

    def make():
        with torch.device("cuda"):
            return nn.GRU(INPUTS, HIDDEN, num_layers=2, batch_first=True, **options)

    plan = plan_update(make, lambda layer: run(layer, torch.zeros(ROWS, STEPS, INPUTS, device="cuda")), device="cuda")
    return plan.stages["update"], plan.needed["update"] / (1 + RESERVE) - plan.stages["update"]


def test_an_update_allocates_these_blocks_in_this_order():
    """As an H200's allocator recorded them, without those of a few KiB."""
    rows, steps, inputs, hidden = 1000, 48, 2, 64

    def make():
        with torch.device("cuda"):
            return nn.LSTM(inputs, hidden, batch_first=True), torch.zeros(rows, steps, inputs)

    def update(state):
        layer, sequence = state
        layer.zero_grad()
        layer(sequence)[0][:, -1].sum().backward()

    state, sequence, outputs, weights = (
        4 * size for size in (rows * hidden, rows * steps * inputs, rows * steps * hidden, 4 * hidden * (hidden + 4))
    )
    workspace = RecurrentLayer("LSTM", torch.float32, 1, 1, hidden, steps, rows, inputs).workspace_bytes
    forward = [state, state, sequence, outputs, state, state, workspace, 61_440_256]
    backward = [
        outputs,
        state,
        state,
        sequence,
        outputs,
        sequence,
        state,
        state,
        workspace,
        sequence,
        weights,
        workspace,
    ]
    events = plan_update(make, update, device="cuda").reserved()._events
    sizes = [size for _, size in events if size > 2**15]
    assert sizes[-len(forward + backward) :] == forward + backward


@pytest.mark.parametrize("directions", [1, 2])
def test_an_update_keeps_the_reserve_and_needs_the_workspace(directions):
    def update(layer, rows):
        layer(rows)[0].square().mean().backward()

    tensors, margin = planned(update, bidirectional=directions == 2)
    gru = RecurrentLayer("GRU", torch.float32, 2, directions, HIDDEN, STEPS, ROWS, INPUTS)
    assert tensors > gru.reserve_bytes + directions * OUTPUTS
    # step by step, as on a CPU, its products would have the workspaces of cuBLAS
    workspace = gru.workspace_bytes
    assert 0.9 * workspace < margin < workspace + directions * OUTPUTS + SEQUENCE


def test_without_gradients_a_layer_in_training_still_fills_a_reserve():
    def run(layer, rows):
        with torch.no_grad():
            layer(rows)

    (in_training, workspace), (in_evaluation, other) = (
        planned(run),
        planned(lambda layer, rows: run(layer.eval(), rows)),
    )
    gru = RecurrentLayer("GRU", torch.float32, 2, 1, HIDDEN, STEPS, ROWS, INPUTS)
    assert in_training - in_evaluation == gru.reserve_bytes
    for size, is_training in ((workspace, True), (other, False)):
        expected = replace(gru, training=is_training).workspace_bytes + SEQUENCE
        assert size == pytest.approx(expected, rel=0.001)


def test_weights_in_bfloat16_are_copied():
    """torch.nn keeps the others in one block, which cuDNN reads."""

    def extra(dtype):
        def make():
            return nn.LSTM(512, 512).to("cuda", dtype)

        def run(layer):
            with torch.no_grad():
                layer(torch.zeros(1, 1, 512, device="cuda", dtype=dtype))

        plan = plan_update(make, run, device="cuda")
        return plan.stages["update"] - plan.stages["make"]

    weights = 4 * (2 * 512 * 512 + 2 * 512) * 2
    assert weights < extra(torch.bfloat16) < weights + 2**16 and extra(torch.float16) < 2**16


@pytest.mark.parametrize("units, is_noted", [(64, False), (128, True), (256, False)])
def test_a_size_that_was_not_measured_is_noted(units, is_noted):
    def make():
        return nn.GRU(4, units).to("cuda")

    plan = plan_update(make, lambda layer: layer(torch.zeros(8, 4, 4, device="cuda")), device="cuda")
    assert any(f"{units} units" in note for note in plan.notes) == is_noted


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpointed_layer_fills_its_reserve_in_the_backward_pass_only(use_reentrant):
    def update(layer, rows, times=3):
        rows = rows.requires_grad_()
        outputs = [checkpoint(lambda x: layer(x)[0], rows, use_reentrant=use_reentrant) for _ in range(times)]
        sum(output.square().mean() for output in outputs).backward()

    (once, _), (thrice, margin) = planned(lambda *args: update(*args, times=1)), planned(update)
    gru = RecurrentLayer("GRU", torch.float32, 2, 1, HIDDEN, STEPS, ROWS, INPUTS)
    assert once > gru.reserve_bytes > (thrice - once) / 2 >= OUTPUTS
    assert margin > 0.9 * gru.workspace_bytes


def test_a_layer_under_torch_func_is_planned_step_by_step_with_a_note():
    def make():
        return nn.GRU(4, 16).to("cuda")

    def update(layer):
        def loss(parameters):
            return functional_call(layer, parameters, torch.zeros(8, 4, 4, device="cuda"))[0].sum()

        grad(loss)(dict(layer.named_parameters()))

    plan = plan_update(make, update, device="cuda")
    assert any("torch.func" in note for note in plan.notes)


def test_tensors_of_a_backward_pass_are_where_it_requests_them():
    class OnDevice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            torch.zeros(2**20, device=gradient.device)
            return gradient

    def peak(device):
        plan = plan_update(
            lambda: torch.zeros(8, requires_grad=True, device="cuda"),
            lambda x: (OnDevice.apply(x.to(device)).sum().backward(), x + 1),
            device="cuda",
        )
        return plan.stages["update"]

    assert peak("cuda") > 2**22 > peak("cpu")


def test_code_that_requests_a_gpu_is_planned_for_a_cpu_as_well():
    def update(layer):
        layer(torch.zeros(2**18, 4, device="cuda").cpu())

    assert 2**23 <= plan_update(lambda: nn.Linear(4, 4), update, device="cpu").stages["update"] < 2**24
