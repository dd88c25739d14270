"""`rlrepro pack` packs records, and nothing about their owner."""

import tarfile

import pytest

from rlrepro.evidence.packing import pack

from .conftest import REFERENCE


@pytest.mark.parametrize("are_links", [False, True])
def test_an_archive_has_the_records_without_their_owner(tmp_path, are_links):
    run = tmp_path / "run"
    run.mkdir()
    for path in REFERENCE.glob("*.jsonl"):
        if are_links:
            (run / path.name).symlink_to(path)
        else:
            (run / path.name).write_bytes(path.read_bytes())
    pack(run, tmp_path / "packed.tar.gz")
    with tarfile.open(tmp_path / "packed.tar.gz") as archive:
        members = archive.getmembers()
        for member in members:
            path = REFERENCE / member.name.rpartition("/")[2]
            assert archive.extractfile(member).read() == path.read_bytes()
            assert (member.uname, member.gname, member.uid, member.gid) == ("", "", 0, 0)
    assert len(list(run.iterdir())) == len(members)


def test_a_place_that_can_not_be_written_is_named(tmp_path, run_cli):
    completed = run_cli("pack", REFERENCE, "--to", tmp_path)
    assert completed.returncode == 1 and str(tmp_path) in completed.stderr and "Traceback" not in completed.stderr
    assert not list(tmp_path.parent.glob("*.partial")) + list(tmp_path.parent.glob(".*.partial"))


def test_an_empty_folder_has_no_verdicts(tmp_path, run_cli):
    completed = run_cli("verdicts", tmp_path)
    assert completed.returncode == 1 and f"no records in {tmp_path}" in completed.stderr
