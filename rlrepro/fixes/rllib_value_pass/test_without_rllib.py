"""If RLlib can't be imported, the error says what the fix needs."""

import importlib
import sys

import pytest


@pytest.mark.parametrize("name", ["ChunkedGAE", "ChunkedPPOTorchLearner", "ChunkedValuePass"])
def test_the_error_names_rllib_and_the_releases(name, monkeypatch):
    package = importlib.import_module(__package__)
    for module in [m for m in sys.modules if m.startswith(f"{__package__}.") or m.split(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "ray", None)
    for attribute in ("connector", "learner", name):
        monkeypatch.delitem(vars(package), attribute, raising=False)
    with pytest.raises(ImportError, match=rf"{name} needs RLlib, and was tested with ray .*\bpip install"):
        getattr(package, name)
