"""`rlrepro matrix`: test the fixes with releases of their libraries, and write the result into the fixes."""

from collections.abc import Iterator
from pathlib import Path

from rlrepro.evidence.compatibility.environments import UvMissing as UvMissing
from rlrepro.evidence.compatibility.run import run
from rlrepro.evidence.compatibility.table import write as write_table
from rlrepro.evidence.records import read_records
from rlrepro.lab import this_machine


def update_fixes(only: tuple[str, ...], wheel: Path | None, records: Path | None, write: bool) -> Iterator[str]:
    """Test the wheel, if one is given, and with `write` update the fixes from the records; yields a line per result.
    Raises UvMissing, and FileNotFoundError if there are no records."""
    records = records or Path("results") / this_machine().name / "compatibility.jsonl"
    for outcome in run(records, wheel.resolve(), only) if wheel else ():
        release = "==".join(outcome.environment.release)
        yield f"{outcome.fix} with {release}: {'works' if outcome.works else outcome.reason}"
    for path in write_table(read_records(records)) if write else ():
        yield f"wrote {path}"
