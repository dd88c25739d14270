"""`rlrepro stability`: the verdicts of several runs side by side, claim by claim."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rlrepro.evidence.claims import Claim
from rlrepro.evidence.records import read_records
from rlrepro.evidence.verdicts import Judgement, MachineRun, judge


def compare_runs(folders: Sequence[Path], claims: Iterable[Claim]) -> list[Judgement]:
    """The claims by the records of each folder, without those that no run can test.

    Raises FileNotFoundError for a folder that does not exist.
    """
    judgements = judge(claims, [MachineRun(str(folder), read_records(folder)) for folder in folders])
    return [entry for entry in judgements if any(verdict.figure != "–" for verdict in entry.verdicts.values())]


def stability_table(entries: Iterable[Judgement]):
    """The claims whose outcome or firmness changes as a table of `rich`, with a row for each run."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="What changes from run to run", title_justify="left")
    for column in ("claim", "run", "verdict", "result"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        if entry.changes or entry.firmness_changes:
            for name, verdict in entry.verdicts.items():
                outcome = verdict.outcome if verdict.firm else f"{verdict.outcome}, not firm"
                table.add_row(entry.claim.id, Text(name), outcome, Text(verdict.figure))
            table.add_section()
    return table


def summary(entries: Sequence[Judgement]) -> str:
    """How many verdicts change, on one line."""
    changed, firm, firmness = (
        sum(getattr(entry, trait) for entry in entries) for trait in ("changes", "firm_changes", "firmness_changes")
    )
    return (
        f"Of {len(entries)} claims, {changed} change their verdict, {firm} of them from one firm verdict to another; "
        f"{firmness} change between firm and not firm."
    )
