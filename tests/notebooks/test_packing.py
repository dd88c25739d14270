"""`rlrepro pack`: what it packs, and what it refuses."""

import shutil
import tarfile
from contextlib import nullcontext

import pytest

from rlrepro.evidence.packing import NotComplete, pack
from rlrepro.evidence.records import read_records

from ..conftest import REFERENCE

CHAPTER = "09_parallel_env"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    shutil.copy(REFERENCE / f"{CHAPTER}.jsonl", tmp_path / "run")
    return tmp_path / "run"


def test_packed_records_can_be_read(run, tmp_path):
    message = pack(run, tmp_path / "packed.tar.gz", [CHAPTER])
    with tarfile.open(tmp_path / "packed.tar.gz") as packed:
        packed.extractall(tmp_path / "results", filter="data")
    (folder,) = (tmp_path / "results").iterdir()
    records = read_records(folder)
    assert records == read_records(run) and folder.name == records[-1].machine.name
    assert f"{len(records):,} records of 1 chapters" in message


def test_misleading_runs_are_refused(run, tmp_path):
    path = run / f"{CHAPTER}.jsonl"
    text = path.read_text()
    first = text.splitlines()[0]
    record = read_records(run)[0]
    name, profile = record.machine.name, f'"profile":"{record.profile}"'
    for wrong, match in {
        text + "{\n": "line ",
        text + first.replace(name, "another-machine") + "\n": "several machines",
        text + first.replace(profile, '"profile":"tiny"') + "\n": "several profiles",
        text.replace(profile, '"profile":"tiny"'): "tiny only shows",
    }.items():
        path.write_text(wrong)
        with pytest.warns() if match == "line " else nullcontext(), pytest.raises(NotComplete, match=match):
            pack(run, tmp_path / "packed.tar.gz")
    path.write_text(text)
    with pytest.raises(NotComplete, match="rlrepro reproduce 02"):
        pack(run, tmp_path / "packed.tar.gz", [CHAPTER, "02_logp_old_oom"])
    assert not (tmp_path / "packed.tar.gz").exists()


def test_the_command_line_gives_the_reason(run_cli, run):
    result = run_cli("pack", run)
    assert result.returncode == 1 and "nothing was packed" in result.stderr and "Traceback" not in result.stderr
