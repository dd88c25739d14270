"""The reimplementation stores and takes what Pearl does, where its source is available; and which of them is used."""

import os

import pytest
import torch

from rlrepro.cases.large_actions import COPIES, PearlBackend, pearl, pearl_reimplementation
from rlrepro.lab import ReleaseUnavailable

needs_pearl = pytest.mark.skipif(
    "RLREPRO_PEARL" not in os.environ, reason="RLREPRO_PEARL does not name a source of Pearl"
)


@pytest.fixture(scope="module")
def backend():
    backend = PearlBackend()
    assert backend.source == "pearl"
    yield backend
    backend.close()


@needs_pearl
@pytest.mark.parametrize("changed", [{}, {"history": 4}, {"copies": COPIES}])
@pytest.mark.parametrize("features", [1, 2, 16])
def test_the_reimplementation_stores_what_pearl_stores(backend, features, changed):
    assert backend.run(pearl.stored, 300, features, **changed) == pearl_reimplementation.stored(
        300, features, **changed
    )


@needs_pearl
@pytest.mark.parametrize("arguments", [(1000, 2, 8, "cpu"), (100, 1, 64, "cpu")])
def test_the_reimplementations_updates_take_what_pearls_take(backend, arguments):
    measured = backend.run(pearl.update_peak, *arguments)
    assert pearl_reimplementation.update_peak(*arguments) == pytest.approx(measured, rel=0.005)


@needs_pearl
@pytest.mark.parametrize("one_hot", [True, False])
def test_the_reimplementations_batches_take_what_pearls_take(backend, one_hot):
    measured = backend.run(pearl.batch_peak, 200, 4, one_hot=one_hot)
    assert pearl_reimplementation.batch_peak(200, 4, one_hot=one_hot) == pytest.approx(measured, rel=0.1)


@needs_pearl
def test_the_reimplementation_grows_from_the_start_as_pearl_does(backend):
    arguments = 30, 1, [32, 128, 160], 140, "cpu"
    measured = backend.run(pearl.since_start, *arguments)
    for ours, theirs in zip(pearl_reimplementation.since_start(*arguments), measured, strict=True):
        assert ours["held"] == theirs["held"] and ours["peak"] == pytest.approx(theirs["peak"], rel=0.1)


@needs_pearl
def test_pearls_weights_are_copied_into_a_factored_network_and_back(backend):
    def largest_difference():
        from pearl.neural_networks.sequential_decision_making.q_value_networks import VanillaQValueNetwork

        from rlrepro.fixes import FactoredQ

        critic, copy = (VanillaQValueNetwork(7, 3, [16, 8], 1) for _ in range(2))
        states, actions = torch.randn(4, 7), torch.randn(9, 3)
        factored = FactoredQ.from_sequential(critic, 7)
        factored.copy_to(copy)
        values = [net.get_q_values(states, actions.expand(4, -1, -1)) for net in (critic, copy)]
        return max((factored(states, actions) - expected).abs().max().item() for expected in values)

    assert backend.run(largest_difference) < 1e-5


@needs_pearl
def test_pearl_trains_on_factored_critics_in_less_memory(backend):
    plain, factored = (
        backend.run(pearl.update_peak, 3000, 2, 8, "cpu", factored=factored) for factored in (False, True)
    )
    assert plain > 1.5 * factored


@needs_pearl
def test_a_factored_critic_of_pearl_computes_what_its_plain_one_does(backend):
    def largest_differences():
        from pearl.neural_networks.common.utils import xavier_init_weights
        from pearl.neural_networks.sequential_decision_making.q_value_networks import VanillaQValueNetwork

        from rlrepro.fixes import FactoredQ, PearlFactoredQ

        plain, factored = VanillaQValueNetwork(7, 3, [16, 8], 1), PearlFactoredQ(7, 3, [16, 8], 1)
        factored._model = FactoredQ.from_sequential(plain, 7)
        states, tables = torch.randn(4, 7), torch.randn(4, 9, 3)
        pairs = (
            (critic.get_q_values(states, actions) for critic in (plain, factored)) for actions in (tables, tables[:, 0])
        )
        difference = max((a - b).abs().max().item() for a, b in pairs)
        for critic in (plain, factored):
            torch.manual_seed(0)
            critic.apply(xavier_init_weights)
        pairs = zip(plain.parameters(), factored._model.to_sequential().parameters(), strict=True)
        return difference, max((a - b).abs().max().item() for a, b in pairs)

    of_values, of_weights = backend.run(largest_differences)
    assert of_values < 1e-5 and of_weights == 0.0


def test_without_a_folder_the_reimplementation_is_used(monkeypatch):
    monkeypatch.delenv("RLREPRO_PEARL", raising=False)
    backend = PearlBackend()
    assert backend.source == "model"
    assert backend.run(pearl.stored, 10, 1) == pearl_reimplementation.stored(10, 1)


def test_a_folder_without_pearl_or_with_another_version_is_refused(tmp_path):
    with pytest.raises(ReleaseUnavailable, match="holds no package 'pearl'"):
        PearlBackend(tmp_path)
    (tmp_path / "pearl").mkdir()
    (tmp_path / "pearl" / "__init__.py").touch()
    with pytest.raises(
        ReleaseUnavailable, match=r"tensor_based_replay_buffer.py is missing; expected Pearl at 48f1fbb"
    ):
        PearlBackend(tmp_path)
    (tmp_path / "pearl" / "replay_buffers").mkdir()
    (tmp_path / "pearl" / "replay_buffers" / "tensor_based_replay_buffer.py").write_text("another")
    with pytest.raises(ReleaseUnavailable, match=r"is from another version.*git clone"):
        PearlBackend(tmp_path)
