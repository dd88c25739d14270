import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from rlrepro.evidence import MissingRecord, RecordBook, read_records
from rlrepro.lab import format_value


@pytest.fixture
def book(tmp_path):
    return RecordBook(tmp_path / "a.jsonl", case="case", profile="smoke", device="cpu", seed=0)


def test_written_records_are_read(book):
    book.add("peak", 5, "B", rows=10)
    record = book.add("ratio", 1.5, "ratio", spread=(1.0, 2.0), rows=10)
    records = read_records(book.path)
    assert records == book.records and records.problems == ()
    assert records[1] == record and records[1].machine.versions["torch"]


def test_finds_by_name_and_setting(book):
    for rows in (4, 2):
        book.add("peak", rows * 10, "B", rows=rows, release="1.0.0")
    assert book.records.series("case.peak", "rows", release="1.0.0") == {2: 20, 4: 40}
    assert book.records.get("case.peak", rows=2).value == 20
    assert book.records.where("case.peak", nonsense=None) == []
    with pytest.raises(MissingRecord, match="along nonsense"):
        book.records.series("case.peak", "nonsense")
    with pytest.raises(MissingRecord, match=r"case\.peak with rows=3"):
        book.records.get("case.peak", rows=3)
    with pytest.raises(MissingRecord, match=r"no record of peak; there is case\.peak$"):
        book.records.get("peak")


@pytest.mark.parametrize(
    "name, value, unit",
    [
        ("peak", 1, "furlongs"),
        ("Peak!", 1, "B"),
        ("peak", object(), "B"),
        ("peak", float("nan"), "B"),
        ("peak", "x", "B"),
        ("text", "\udc80", "text"),
        ("rows", 10**400, "rows"),
    ],
)
def test_rejects_values_outside_the_schema(book, name, value, unit):
    with pytest.raises(ValueError):  # pydantic's ValidationError is one
        book.add(name, value, unit)
    assert not book.path.exists()
    book.add("peak", 1, "B")  # a record that was refused does not come back
    assert len(read_records(book.path)) == 1


def test_a_damaged_line_is_named_and_the_rest_is_read(book):
    for value in (1, 2, 3):
        book.add("peak", value, "B")
    lines = book.path.read_text().splitlines()
    lines[1] = lines[1][:50]  # cut in the middle
    lines.append('{"schema_version": 1, "name": "case.peak"}')
    book.path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    with pytest.warns(UserWarning) as warned:
        records = read_records(book.path)
    assert [record.value for record in records] == [1, 3]
    assert [f"line {number}" in problem for number, problem in zip((2, 4, 5), records.problems, strict=True)] == [
        True
    ] * 3
    assert len(warned) == 3 and all(str(book.path) in str(warning.message) for warning in warned)


def test_a_file_that_was_written_again_is_read_again(book):
    book.add("peak", 1, "B")
    text = book.path.read_text()
    first = read_records(book.path)
    first.clear()  # belongs to its reader
    assert [record.value for record in read_records(book.path)] == [1]
    book.path.write_text(text.replace('"value":1', '"value":2'))
    os.utime(book.path, (0, 0))  # a clock may be too coarse for a second write so soon
    assert [record.value for record in read_records(book.path)] == [2]
    book.path.write_text("damaged\n")
    for _ in range(2):
        with pytest.warns(UserWarning, match="line 1"):
            assert not read_records(book.path)


FULL_DISK = """
import resource, sys
from rlrepro.evidence import RecordBook
book = RecordBook(sys.argv[1], case="case", profile="smoke", device="cpu", seed=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    book.add("peak", 2, "B")
except OSError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_full_disk_leaves_the_records_of_before(book):
    """A limit on the size of a file makes the system refuse the write, as a full disk does."""
    book.add("peak", 1, "B")
    before = book.path.read_bytes()
    completed = subprocess.run([sys.executable, "-c", FULL_DISK, book.path], capture_output=True, text=True, check=True)
    assert "are unchanged" in completed.stdout and str(book.path) in completed.stdout
    assert book.path.read_bytes() == before
    assert list(book.path.parent.iterdir()) == [book.path]


def test_missing_records_raise_with_the_command_that_makes_some(tmp_path):
    with pytest.raises(FileNotFoundError, match="rlrepro reproduce"):
        read_records(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (0, "B", "0 B"),
        (1023, "B", "1,023 B"),
        (15_309_864, "B", "14.6 MiB"),
        (2**30, "B", "1.0 GiB"),
        (0, "s", "0 s"),
        (0.25, "s", "250 ms"),
        (3, "s", "3 s"),
        (0.9999, "s", "1 s"),
        (86_400, "s", "86,400 s"),
        (2**20 - 1, "B", "1.0 MiB"),
        (63.12, "ratio", "63.1×"),
        (None, "B", "not measured"),
        ([2, 3], "sizes", "2 + 3"),
        ([3, 2**20, 5], "B in turn", "up to 1.0 MiB"),
    ],
)
def test_formats_for_people(value, unit, text):
    assert format_value(value, unit) == text


def test_records_of_a_folder_are_read_oldest_first(book):
    """A copy of an earlier file, whatever its name, does not replace what was measured later."""
    book.add("peak", 2, "B", rows=1)
    older = book.records[0].model_copy(update={"value": 1, "taken_at": datetime(2020, 1, 1, tzinfo=UTC)})
    book.path.with_name(f"{book.path.stem}_before.jsonl").write_text(older.model_dump_json() + "\n")
    assert [record.value for record in read_records(book.path.parent)] == [1, 2]


@pytest.mark.slow
def test_threads_may_add_to_one_book(book):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda row: book.add("peak", 1, "B", rows=row), range(80)))
    assert sorted(record.setting["rows"] for record in read_records(book.path)) == list(range(80))
    assert list(book.path.parent.iterdir()) == [book.path]


def test_an_interrupt_leaves_no_file_behind(book, monkeypatch):
    book.add("peak", 1, "B", rows=1)

    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        book.add("peak", 2, "B", rows=2)
    assert list(book.path.parent.iterdir()) == [book.path] and len(read_records(book.path)) == 1
