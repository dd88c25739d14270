"""A bench accepts the records that its case declares, and keeps one process per release."""

from dataclasses import dataclass
from os import getpid
from types import SimpleNamespace

import pytest

from rlrepro.cases.common.bench import Bench
from rlrepro.evidence import Quantity, UndeclaredRecord, read_records


@dataclass(frozen=True)
class Settings:
    rows: int


CASE = SimpleNamespace(
    __name__="rlrepro.cases.example",
    CHAPTER="09_example",
    SETTINGS={"tiny": Settings(1), "smoke": Settings(2)},
    RECORDS=(Quantity("peak", "B", ("rows",)),),
)


@pytest.fixture
def bench(tmp_path):
    bench = Bench(CASE, profile="tiny", device="cpu", seed=3, out=tmp_path)
    yield bench
    bench.close()


def test_records_are_those_that_the_case_declares(bench, tmp_path):
    bench.add("peak", 5, rows=bench.settings.rows)
    (record,) = read_records(tmp_path / "09_example.jsonl")
    assert (record.name, record.unit, record.setting) == ("example.peak", "B", {"rows": 1})
    assert (record.profile, record.device, record.seed) == ("tiny", "cpu", 3)
    assert bench.records == [record]
    with pytest.raises(UndeclaredRecord):
        bench.add("peak", 5)


def test_an_unknown_profile_is_refused(tmp_path):
    with pytest.raises(KeyError, match="huge"):
        Bench(CASE, profile="huge", device="cpu", seed=0, out=tmp_path)


def test_a_release_is_one_process_until_the_bench_is_closed(bench):
    release, other = bench.release("tianshou==2.0.1"), bench.release("tianshou==2.0.1", SPECIAL="1")
    assert bench.release("tianshou==2.0.1") is release is not other
    pids = [process.run(getpid) for process in (release, other, release)]
    assert pids[0] == pids[2] != pids[1] and getpid() not in pids
    bench.close()
    assert release.run(getpid) != pids[0]
