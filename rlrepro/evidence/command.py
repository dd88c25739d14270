"""`rlrepro verdicts` and `rlrepro stability`: the verdicts on folders of records, for people or for programs."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from rlrepro.evidence.claims import Claim
from rlrepro.evidence.records import read_records
from rlrepro.evidence.stability import compare_runs, stability_table, summary
from rlrepro.evidence.verdicts import verdict_rows, verdict_table


def print_verdicts(folder: Path, claims: Iterable[Claim], *, as_json: bool = False) -> bool:
    """Print the verdicts on these claims as a table or as JSON. Returns whether every record could be read. Raises
    FileNotFoundError if there are none."""
    if not (claims := list(claims)):
        return True
    records = read_records(folder)
    if not records and not records.problems:
        raise FileNotFoundError(f"no records in {folder}; `rlrepro reproduce` makes them")
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


def print_stability(folders: Sequence[Path], claims: Iterable[Claim]) -> bool:
    """Print which verdicts differ between these runs. Returns whether firm ones do. Raises FileNotFoundError for a
    folder that does not exist."""
    from rich.console import Console

    comparisons = compare_runs(folders, claims)
    table = stability_table(comparisons)
    if table.row_count:
        Console().print(table)
    print(summary(comparisons))
    return any(comparison.firm_changes for comparison in comparisons)
