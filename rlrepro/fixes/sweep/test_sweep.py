"""sweep beside the folders that it uses, or alone."""

import pytest

from . import neighbours, sweep
from .neighbours import neighbour

CONFIGS = [{"env": "Pendulum-v1", "n_steps": 64, "n_epochs": 2, "learning_rate": rate} for rate in (1e-3, 1e-4)]


def test_a_config_that_can_not_be_batched_is_among_those_that_can():
    try:
        neighbour("train_many")
    except ImportError:
        pytest.skip("the folders that it uses are missing")
    first, alone, second = sweep([CONFIGS[0], {"env": "Pendulum-v1", "use_sde": True}, CONFIGS[1]], 64, n_jobs=2)
    assert [first.error, alone.error, second.error] == [None] * 3
    assert first.config is CONFIGS[0] and second.value.policy.predict([0.0, 0.0, 0.0])[0].shape == (1,)


def test_a_missing_folder_is_named(monkeypatch):
    monkeypatch.setattr(neighbours, "__package__", "nowhere.sweep")
    monkeypatch.setattr(neighbours, "import_module", lambda name: __import__("train_many_that_is_missing"))
    monkeypatch.setattr(neighbours, "FOLDERS", ("train_many_that_is_missing",))
    with pytest.raises(ImportError, match="beside its own; copy train_many_that_is_missing"):
        neighbour("train_many")
