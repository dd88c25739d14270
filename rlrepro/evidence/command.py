"""`rlrepro verdicts`: the verdicts on a folder of records, printed for people or for programs."""

import json
from collections.abc import Iterable
from pathlib import Path

from rlrepro.evidence.claims import Claim
from rlrepro.evidence.records import read_records
from rlrepro.evidence.verdicts import verdict_rows, verdict_table


def print_verdicts(folder: Path, claims: Iterable[Claim], *, as_json: bool = False) -> bool:
    """Print the verdicts on these claims as a table or as JSON. Returns whether every record could be read. Raises
    FileNotFoundError if there are none."""
    if not (claims := list(claims)):
        return True
    records = read_records(folder)
    rows = verdict_rows(records, claims)
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return not records.problems
    from rich.console import Console

    machines, profiles = {row["machine"] for row in rows}, {record.profile for record in records}
    title = f"{', '.join(sorted(machines))}, profile {', '.join(sorted(profiles)) or 'none'}"
    Console().print(verdict_table(rows, title))
    print(f"How to read a verdict: README.md. The notebooks and records behind it: {folder}")
    return not records.problems
