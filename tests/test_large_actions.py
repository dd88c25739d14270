"""Large action spaces: the reimplementation against Pearl, the predictions against both, the fixes, and the loops."""

import itertools

import psutil
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rlrepro.cases.large_actions import (
    ACTIONS,
    ARTICLE_ACTIONS,
    BATCH,
    CAPACITY,
    FEATURES,
    HIDDEN,
    STATE,
    fixed_workloads,
    nearest_point_env,
    pearl_reimplementation,
    predicted_bytes,
    torchrl_encoding,
)
from rlrepro.evidence.estimates import growth_exponent
from rlrepro.fixes import FactoredQ
from rlrepro.fixes.large_actions.action_chunks import CPU_WORKING_BYTES
from rlrepro.lab import peak_memory

CARD = 8 * 2**30


@pytest.mark.parametrize("features", [1, 2])
def test_a_transition_is_predicted_to_the_byte(features):
    measured = pearl_reimplementation.stored(500, features)
    assert predicted_bytes.transition(500, features) == {
        part: size for part, size in measured.items() if part != "rest"
    }


@pytest.mark.slow
@pytest.mark.parametrize("count, rows", [(100, 64), (1000, 8)])
def test_the_bytes_of_a_state_in_an_update_are_predicted(count, rows):
    peaks = [pearl_reimplementation.update_peak(count, 1, size, "cpu") for size in (rows, 2 * rows)]
    added = (peaks[1] - peaks[0]) / rows
    assert sum(predicted_bytes.update(count, 1).values()) == pytest.approx(added, rel=2 / count)


@pytest.mark.slow
def test_the_plain_update_grows_with_the_actions_and_the_factored_one_does_not():
    counts = (1_000, 4_000, 16_000)
    plain, factored = (
        growth_exponent(counts, [fixed_workloads.planned_peak(update, count, FEATURES, 64) for count in counts])
        for update in (fixed_workloads.plain_update, fixed_workloads.factored_update)
    )
    assert plain > 0.98
    assert factored < 0.3


@pytest.mark.slow
def test_a_plan_equals_the_measurement():
    size = 500, FEATURES, 16
    measured = peak_memory(fixed_workloads.plain_update(*size, "cpu")).peak_bytes
    assert fixed_workloads.planned_peak(fixed_workloads.plain_update, *size) == pytest.approx(measured, rel=0.1)
    measured = peak_memory(fixed_workloads.factored_update(*size, "cpu")).peak_bytes
    assert 0.5 * measured < fixed_workloads.planned_peak(fixed_workloads.factored_update, *size)
    assert measured < 1.1 * fixed_workloads.planned_peak(
        fixed_workloads.factored_update, *size
    )  # a CPU uses smaller chunks


@pytest.mark.slow
@pytest.mark.parametrize("count", [30, 150])
def test_a_plan_of_factored_q_is_exact_with_the_chunks_of_a_cpu(count):
    """Apart from the weights and the inputs, which exist before the update that is measured. With a GPU's chunks, the
    plan is above it with few actions, and below it once activations are dropped."""
    limit = 48 * 2**20
    size, options = (count, FEATURES, BATCH), {"memory_limit": limit}
    net = FactoredQ(STATE, FEATURES, HIDDEN)
    chunk = CPU_WORKING_BYTES // (BATCH * (net.kept_bytes + net.gradient_bytes))
    before = 4 * (sum(weight.numel() for weight in net.parameters()) + BATCH * STATE + count * FEATURES)
    measured = peak_memory(fixed_workloads.factored_update(*size, "cpu", **options), warmup=0).peak_bytes
    on_cpu = fixed_workloads.planned_peak(fixed_workloads.factored_update, *size, chunk=chunk, **options)
    on_gpu = fixed_workloads.planned_peak(fixed_workloads.factored_update, *size, **options)
    assert on_cpu == measured + before
    assert (on_gpu > on_cpu) == (count == 30)


@pytest.mark.slow
def test_the_articles_size_fits():
    factored = fixed_workloads.planned_peak(fixed_workloads.factored_update, ARTICLE_ACTIONS, FEATURES, BATCH)
    assert factored < 2**30
    assert fixed_workloads.planned_peak(fixed_workloads.plain_update, ARTICLE_ACTIONS, FEATURES, BATCH) > 40 * factored
    largest = fixed_workloads.largest_plain(FEATURES, BATCH, CARD)
    assert fixed_workloads.planned_peak(fixed_workloads.plain_update, largest, FEATURES, BATCH) <= CARD
    assert fixed_workloads.planned_peak(fixed_workloads.plain_update, largest + 1, FEATURES, BATCH) > CARD


def test_a_stored_transition_is_ten_thousand_times_smaller():
    storages = (
        fixed_workloads.stored(ARTICLE_ACTIONS, FEATURES, CAPACITY),
        predicted_bytes.transition(ARTICLE_ACTIONS, FEATURES),
    )
    shared, in_pearl = (sum(size for field, size in sizes.items() if "state" not in field) for sizes in storages)
    assert shared <= 48 and in_pearl / shared >= 10_000


@pytest.mark.filterwarnings("ignore:No target network updater")
def test_torchrls_one_hot_actions_take_8_bytes_per_possible_action():
    one_hot, integer = (
        torchrl_encoding.measure(ACTIONS, categorical=categorical, device="cpu") for categorical in (False, True)
    )
    assert one_hot["action"] == 8 * ACTIONS and integer["action"] == 8
    assert one_hot["peak"] > 5 * integer["peak"]
    assert torchrl_encoding.spec_bytes(ACTIONS) == ACTIONS


@pytest.mark.parametrize(
    "method, updates, regret", [("dqn", 150, 0.12), pytest.param("sac", 300, 0.3, marks=pytest.mark.slow)]
)
def test_a_training_run_finds_good_actions(method, updates, regret):
    result = nearest_point_env.train(method, updates, 0, "cpu", count=300)
    assert result["best"] - result["reward"] < regret * (result["best"] - result["chance"])
    assert result["resident"][-1] < 1.2 * result["resident"][0]


@pytest.mark.parametrize("backward", [False, True])
def test_the_matrix_products_are_those_of_the_later_layers_for_each_pair(backward, monkeypatch):
    monkeypatch.setattr(fixed_workloads, "PAIRS_AT_ONCE", {"cpu": 512})  # the last chunk is shorter
    with FlopCounterMode(display=False) as counter:
        fixed_workloads.matrix_products(100, 7, "cpu", backward=backward)()
    per_pair = sum(2 * inputs * outputs for inputs, outputs in itertools.pairwise((*HIDDEN, 1)))
    assert counter.get_total_flops() == 700 * per_pair * (3 if backward else 1)


def test_factored_values_save_the_products_of_the_first_layer():
    flops = []
    for values in (fixed_workloads.plain_values, fixed_workloads.factored_values):
        evaluate = values(200, FEATURES, 4, "cpu")
        with FlopCounterMode(display=False) as counter:
            assert evaluate().shape == (4, 200)
        assert not evaluate().requires_grad
        flops.append(counter.get_total_flops())
    states = 2 * HIDDEN[0] * STATE * (4 * 200 - 4)  # the states' product: per state, not per pair
    actions = 2 * HIDDEN[0] * FEATURES * (4 * 200 - 200)  # the actions' product: per action
    assert flops[0] - flops[1] == states + actions


def test_a_precision_is_reset_after_its_context():
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), fixed_workloads.precision("high"):
        assert torch.get_float32_matmul_precision() == "high"
        raise KeyError
    assert torch.get_float32_matmul_precision() == before
    assert fixed_workloads.precisions("cpu") == ["highest"] and fixed_workloads.precisions("cuda:1") == [
        "highest",
        "high",
    ]


def test_free_bytes_are_what_the_system_reports():
    assert fixed_workloads.free_bytes("cpu") == pytest.approx(psutil.virtual_memory().available, rel=0.2)
