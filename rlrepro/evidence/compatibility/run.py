"""Test the planned environments, with a record for each fix and release."""

from collections.abc import Iterator
from pathlib import Path

from rlrepro.evidence import RecordBook, Records, read_records
from rlrepro.evidence.compatibility.environments import Outcome, environments, outcomes
from rlrepro.evidence.compatibility.table import NAME


def run(path: Path, wheel: Path, only: tuple[str, ...] = ()) -> Iterator[Outcome]:
    """Test each planned environment and add its outcomes to the records at `path`, replacing older ones for the same
    release. Raises UvMissing, and what RecordBook raises."""
    selected = environments(only)
    releases = {environment.release for environment in selected}
    book = RecordBook(path, case=NAME.partition(".")[0], profile="full", device="cpu", seed=0)
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
                NAME.partition(".")[2],
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
