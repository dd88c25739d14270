"""`rlrepro stability`: the verdicts of several runs side by side, claim by claim."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.records import read_records


@dataclass(frozen=True)
class ClaimInRuns:
    """The verdict of each run on a claim."""

    claim: Claim
    verdicts: dict[str, Verdict]  # by the run's folder

    @property
    def changes(self) -> bool:
        """Whether the runs come to different outcomes."""
        return len({verdict.outcome for verdict in self.verdicts.values()}) > 1

    @property
    def firm_changes(self) -> bool:
        """Whether firm verdicts differ."""
        return len({verdict.outcome for verdict in self.verdicts.values() if verdict.firm}) > 1

    @property
    def firmness_changes(self) -> bool:
        """Whether the verdict is firm in some runs only."""
        return len({verdict.firm for verdict in self.verdicts.values()}) > 1


def compare_runs(folders: Sequence[Path], claims: Iterable[Claim]) -> list[ClaimInRuns]:
    """The claims by the records of each folder, without those that no run can test.

    Raises FileNotFoundError for a folder that does not exist.
    """
    runs = {str(folder): read_records(folder) for folder in folders}
    entries = [ClaimInRuns(claim, {name: claim.verdict(records) for name, records in runs.items()}) for claim in claims]
    return [entry for entry in entries if any(verdict.figure != "–" for verdict in entry.verdicts.values())]


def stability_table(entries: Iterable[ClaimInRuns]):
    """The claims whose outcome or firmness changes as a table of `rich`, with a row for each run."""
    from rich.table import Table

    table = Table(title="What changes from run to run", title_justify="left")
    for column in ("claim", "run", "verdict", "result"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        if entry.changes or entry.firmness_changes:
            for name, verdict in entry.verdicts.items():
                outcome = verdict.outcome if verdict.firm else f"{verdict.outcome}, not firm"
                table.add_row(entry.claim.id, name, outcome, verdict.figure)
            table.add_section()
    return table


def summary(entries: Sequence[ClaimInRuns]) -> str:
    """How many verdicts change, on one line."""
    changed, firm, firmness = (
        sum(getattr(entry, trait) for entry in entries) for trait in ("changes", "firm_changes", "firmness_changes")
    )
    return (
        f"Of {len(entries)} claims, {changed} change their verdict, {firm} of them from one firm verdict to another; "
        f"{firmness} change between firm and not firm."
    )
