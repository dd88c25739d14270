"""The case that CONTRIBUTING.md adds step by step works as it is written there."""

import importlib
import re
from textwrap import dedent

import cloudpickle
import pytest

import rlrepro.cases
from rlrepro.cases.common.bench import Bench

from .conftest import ROOT

BLOCK = re.compile(r"^ *```python\n *# rlrepro/cases/replay_buffer/(\S+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def case(tmp_path, monkeypatch):
    folder = tmp_path / "replay_buffer"
    folder.mkdir()
    for name, code in BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text()):
        (folder / name).write_text(dedent(code))
    monkeypatch.setattr(rlrepro.cases, "__path__", [*rlrepro.cases.__path__, str(tmp_path)])
    case = importlib.import_module("rlrepro.cases.replay_buffer")
    cloudpickle.register_pickle_by_value(case.workloads)  # the process of a release can't import it
    yield case
    cloudpickle.unregister_pickle_by_value(case.workloads)


@pytest.mark.slow
def test_its_claim_is_supported_and_its_figure_is_drawn(case, tmp_path):
    bench = Bench(case, profile="tiny", device="cpu", seed=0, out=tmp_path / "run")
    case.measure.bytes_by_buffer_size(bench)
    bench.close()
    (verdict,) = (claim.verdict(bench.records) for claim in case.CLAIMS)
    assert verdict.outcome == "supported" and verdict.firm, verdict
    observations = 100 * 4 * 84 * 84
    sizes = (bench.records.get("replay_buffer.size", buffer_size=100, optimized=o).value for o in (True, False))
    assert [size // observations for size in sizes] == [1, 2]
    assert case.plots.plot_bytes_by_buffer_size(bench.records).axes
