"""`rlrepro matrix`: test the fixes with releases of their libraries, and write the result into the fixes."""

from collections.abc import Iterator
from pathlib import Path

from rlrepro.evidence import RecordBook, Records, read_records
from rlrepro.evidence.compatibility.environments import Outcome, environments, outcomes
from rlrepro.evidence.compatibility.environments import UvMissing as UvMissing
from rlrepro.evidence.compatibility.table import NAME
from rlrepro.evidence.compatibility.table import write as write_table
from rlrepro.lab import this_machine


def update_fixes(only: tuple[str, ...], wheel: Path | None, records: Path | None, write: bool) -> Iterator[str]:
    """Test the wheel, if one is given, and with `write` update the fixes from the records; yields a line per result.
    Raises UvMissing, FileNotFoundError if there are no records, and what RecordBook raises."""
    records = records or Path("results") / this_machine().name / "compatibility.jsonl"
    for outcome in _recorded(records, wheel.resolve(), only) if wheel else ():
        release = "==".join(outcome.environment.release)
        yield f"{outcome.fix} with {release}: {'works' if outcome.works else outcome.reason}"
    for path in write_table(read_records(records)) if write else ():
        yield f"wrote {path}"


def _recorded(path: Path, wheel: Path, only: tuple[str, ...]) -> Iterator[Outcome]:
    """Test each planned environment and add its outcomes to the records at `path`, replacing older ones for the same
    release."""
    case, _, name = NAME.partition(".")
    selected = environments(only)
    releases = {environment.release for environment in selected}
    book = RecordBook(path, case=case, profile="full", device="cpu", seed=0)
    if path.exists():
        book.records = Records(
            record
            for record in read_records(path)
            if (record.setting["library"], record.setting["release"]) not in releases
        )
    for environment in selected:
        library, release = environment.release
        for outcome in outcomes(environment, wheel):
            book.add(
                name,
                outcome.works,
                "yes/no",
                fix=outcome.fix,
                library=library,
                release=release,
                python=outcome.versions.get("python", environment.python),
                torch=outcome.versions.get("torch"),
                numpy=outcome.versions.get("numpy"),
                gymnasium=outcome.versions.get("gymnasium"),
                why=outcome.reason,
            )
            yield outcome
