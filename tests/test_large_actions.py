"""The case of large action spaces: the model of Pearl against Pearl, the account against both, and the cures."""

import itertools
import os

import psutil
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rlrepro.cases.large_actions import (
    ACTIONS,
    ARTICLE_ACTIONS,
    BATCH,
    CAPACITY,
    COPIES,
    FEATURES,
    HIDDEN,
    STATE,
    Theirs,
    pearl,
    torchrl_encoding,
)
from rlrepro.cases.large_actions import (
    fixed_workloads as ours,
)
from rlrepro.cases.large_actions import (
    nearest_point_env as task,
)
from rlrepro.cases.large_actions import (
    pearl_reimplementation as model,
)
from rlrepro.cases.large_actions import (
    predicted_bytes as account,
)
from rlrepro.evidence.growth import growth_exponent
from rlrepro.lab import ReleaseUnavailable, peak_memory

needs_pearl = pytest.mark.skipif("RLREPRO_PEARL" not in os.environ, reason="RLREPRO_PEARL names no source of Pearl")
CARD = 8 * 2**30


@pytest.fixture(scope="module")
def theirs():
    found = Theirs()
    assert found.source == "pearl"
    yield found
    found.close()


@needs_pearl
@pytest.mark.parametrize("changed", [{}, {"history": 4}, {"copies": COPIES}])
@pytest.mark.parametrize("features", [1, 2, 16])
def test_the_model_stores_what_pearl_stores(theirs, features, changed):
    assert theirs.run(pearl.stored, 300, features, **changed) == model.stored(300, features, **changed)


@needs_pearl
@pytest.mark.parametrize(
    "function, arguments",
    [
        (pearl.critic_peak, (1000, 2, 8, "cpu")),
        (pearl.update_peak, (1000, 2, 8, "cpu")),
        (pearl.update_peak, (100, 1, 64, "cpu")),
    ],
)
def test_the_models_updates_take_what_pearls_take(theirs, function, arguments):
    measured = theirs.run(function, *arguments)
    assert getattr(model, function.__name__)(*arguments) == pytest.approx(measured, rel=0.1)


@needs_pearl
@pytest.mark.parametrize("one_hot", [True, False])
def test_the_models_batches_take_what_pearls_take(theirs, one_hot):
    measured = theirs.run(pearl.batch_peak, 200, 4, one_hot=one_hot)
    assert model.batch_peak(200, 4, one_hot=one_hot) == pytest.approx(measured, rel=0.1)


@needs_pearl
def test_the_model_grows_from_the_start_as_pearl_does(theirs):
    arguments = 30, 1, [32, 128, 160], 140, "cpu"
    for mine, real in zip(model.since_start(*arguments), theirs.run(pearl.since_start, *arguments), strict=True):
        assert mine["held"] == real["held"] and mine["peak"] == pytest.approx(real["peak"], rel=0.1)


@needs_pearl
def test_pearls_weights_go_into_a_factored_network_and_back(theirs):
    def largest_difference():
        from pearl.neural_networks.sequential_decision_making.q_value_networks import VanillaQValueNetwork

        from rlrepro.fixes import FactoredQ

        critic, other = (VanillaQValueNetwork(7, 3, [16, 8], 1) for _ in range(2))
        states, actions = torch.randn(4, 7), torch.randn(9, 3)
        factored = FactoredQ.from_sequential(critic, 7)
        factored.copy_to(other)
        values = [each.get_q_values(states, actions.expand(4, -1, -1)) for each in (critic, other)]
        return max((factored(states, actions) - each).abs().max().item() for each in values)

    assert theirs.run(largest_difference) < 1e-5


@needs_pearl
def test_pearl_trains_on_factored_critics_in_less_memory(theirs):
    plain, factored = (theirs.run(pearl.update_peak, 3000, 2, 8, "cpu", factored=each) for each in (False, True))
    assert plain > 1.5 * factored


@needs_pearl
def test_a_factored_critic_of_pearl_gives_what_its_plain_one_gives(theirs):
    def largest_difference():
        from pearl.neural_networks.common.utils import xavier_init_weights
        from pearl.neural_networks.sequential_decision_making.q_value_networks import VanillaQValueNetwork

        from rlrepro.fixes import FactoredQ, PearlFactoredQ

        plain, factored = VanillaQValueNetwork(7, 3, [16, 8], 1), PearlFactoredQ(7, 3, [16, 8], 1)
        factored._model = FactoredQ.from_sequential(plain, 7)
        states, tables = torch.randn(4, 7), torch.randn(4, 9, 3)
        pairs = (
            (each.get_q_values(states, actions) for each in (plain, factored)) for actions in (tables, tables[:, 0])
        )
        difference = max((one - other).abs().max().item() for one, other in pairs)
        for critic in (plain, factored):
            torch.manual_seed(0)
            critic.apply(xavier_init_weights)
        pairs = zip(plain.parameters(), factored._model.to_sequential().parameters(), strict=True)
        return difference, max((one - other).abs().max().item() for one, other in pairs)

    difference, of_weights = theirs.run(largest_difference)
    assert difference < 1e-5 and of_weights == 0.0


@pytest.mark.parametrize("features", [1, 2])
def test_a_transition_is_predicted_to_the_byte(features):
    measured = model.stored(500, features)
    assert account.transition(500, features) == {part: size for part, size in measured.items() if part != "rest"}


@pytest.mark.parametrize("count, rows", [(100, 64), (1000, 8)])
def test_an_update_is_predicted(count, rows):
    measured = model.update_peak(count, 1, rows, "cpu")
    assert sum(account.update(count, 1).values()) * rows == pytest.approx(measured, rel=0.1)


def test_theirs_grows_with_the_actions_and_ours_does_not():
    counts = (1_000, 4_000, 16_000)
    plain, factored = (
        growth_exponent(counts, [ours.planned_peak(make, count, FEATURES, 64) for count in counts])
        for make in (ours.plain_update, ours.factored_update)
    )
    assert plain > 0.98
    assert factored < 0.3


def test_a_plan_is_what_is_measured():
    size = 500, FEATURES, 16
    measured = peak_memory(ours.plain_update(*size, "cpu")).peak_bytes
    assert ours.planned_peak(ours.plain_update, *size) == pytest.approx(measured, rel=0.1)
    measured = peak_memory(ours.factored_update(*size, "cpu")).peak_bytes
    assert 0.5 * measured < ours.planned_peak(ours.factored_update, *size)
    assert measured < 1.1 * ours.planned_peak(ours.factored_update, *size)  # a CPU takes smaller chunks


def test_the_articles_size_fits():
    ours_planned = ours.planned_peak(ours.factored_update, ARTICLE_ACTIONS, FEATURES, BATCH)
    assert ours_planned < 2**30
    assert ours.planned_peak(ours.plain_update, ARTICLE_ACTIONS, FEATURES, BATCH) > 40 * ours_planned
    largest = ours.largest_plain(FEATURES, BATCH, CARD)
    assert ours.planned_peak(ours.plain_update, largest, FEATURES, BATCH) <= CARD
    assert ours.planned_peak(ours.plain_update, largest + 1, FEATURES, BATCH) > CARD


def test_a_stored_transition_is_ten_thousand_times_smaller():
    mine = sum(size for part, size in ours.stored(ARTICLE_ACTIONS, FEATURES, CAPACITY).items() if "state" not in part)
    theirs = sum(size for part, size in account.transition(ARTICLE_ACTIONS, FEATURES).items() if "state" not in part)
    assert mine <= 48 and theirs / mine >= 10_000


@pytest.mark.filterwarnings("ignore:No target network updater")
def test_torchrls_encodings_take_what_they_take():
    found = {each: torchrl_encoding.measure(ACTIONS, categorical=each, device="cpu") for each in (False, True)}
    assert found[False]["action"] == 8 * ACTIONS and found[True]["action"] == 8
    assert found[False]["peak"] > 5 * found[True]["peak"]
    assert torchrl_encoding.spec_bytes(ACTIONS) == ACTIONS


@pytest.mark.parametrize("method, updates, regret", [("dqn", 150, 0.12), ("sac", 300, 0.3)])
def test_the_training_finds_good_actions(method, updates, regret, monkeypatch):
    monkeypatch.setattr(task, "ACTIONS", 300)
    found = task.train(method, updates, 0, "cpu")
    assert found["best"] - found["reward"] < regret * (found["best"] - found["chance"])
    assert found["resident"][-1] < 1.2 * found["resident"][0]


def test_without_a_folder_the_model_stands_in(monkeypatch):
    monkeypatch.delenv("RLREPRO_PEARL", raising=False)
    theirs = Theirs()
    assert theirs.source == "model"
    assert theirs.run(pearl.stored, 10, 1) == model.stored(10, 1)


def test_a_folder_that_is_not_pearl_or_another_version_is_told(tmp_path):
    with pytest.raises(ReleaseUnavailable, match="holds no package 'pearl'"):
        Theirs(tmp_path)
    (tmp_path / "pearl").mkdir()
    (tmp_path / "pearl" / "__init__.py").touch()
    with pytest.raises(
        ReleaseUnavailable, match=r"tensor_based_replay_buffer.py is not there; expected Pearl at 48f1fbb"
    ):
        Theirs(tmp_path)
    (tmp_path / "pearl" / "replay_buffers").mkdir()
    (tmp_path / "pearl" / "replay_buffers" / "tensor_based_replay_buffer.py").write_text("another")
    with pytest.raises(ReleaseUnavailable, match=r"is of another version.*git clone"):
        Theirs(tmp_path)


@pytest.mark.parametrize("backward", [False, True])
def test_the_floor_multiplies_each_pair_by_the_later_layers_and_no_more(backward, monkeypatch):
    monkeypatch.setattr(ours, "PAIRS_AT_ONCE", {"cpu": 512})  # the last chunk is a shorter one
    with FlopCounterMode(display=False) as counter:
        ours.matrix_products(100, 7, "cpu", backward=backward)()
    once = sum(2 * before * after for before, after in itertools.pairwise((*HIDDEN, 1)))
    assert counter.get_total_flops() == 700 * once * (3 if backward else 1)


def test_the_first_layer_is_what_factored_values_save():
    flops = []
    for values in (ours.plain_values, ours.factored_values):
        evaluate = values(200, FEATURES, 4, "cpu")
        with FlopCounterMode(display=False) as counter:
            assert evaluate().shape == (4, 200)
        assert not evaluate().requires_grad
        flops.append(counter.get_total_flops())
    saved = 2 * HIDDEN[0] * STATE * (4 * 200 - 4)  # the states' product, once a state in place of once a pair
    actions = 2 * HIDDEN[0] * FEATURES * (4 * 200 - 200)  # the actions' product, once an action
    assert flops[0] - flops[1] == saved + actions


def test_a_precision_holds_for_its_context_only():
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), ours.precision("high"):
        assert torch.get_float32_matmul_precision() == "high"
        raise KeyError
    assert torch.get_float32_matmul_precision() == before
    assert ours.precisions("cpu") == ["highest"] and ours.precisions("cuda:1") == ["highest", "high"]


def test_what_is_free_is_what_the_system_says():
    assert ours.free_bytes("cpu") == pytest.approx(psutil.virtual_memory().available, rel=0.2)
