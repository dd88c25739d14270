"""Verdicts: claims judged by the records of each machine, as rows for a table or a program."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlrepro.evidence.claims import UNTESTED, Claim, Verdict
from rlrepro.evidence.records import Records, read_records
from rlrepro.evidence.tables import markdown_table
from rlrepro.lab.units import format_value

TERMINAL_COLORS = {"supported": "green", "refuted": "red", "partly": "yellow", UNTESTED: "dim"}


@dataclass(frozen=True)
class MachineRun:
    """The records of one run on one machine and device."""

    label: str
    records: Records

    @property
    def traits(self) -> dict[str, str]:
        """What may make its measurements differ from those of another run."""
        last = self.records[-1]
        machine = last.machine
        return {
            "processor": machine.cpu,
            "cores": str(machine.cores),
            "memory": format_value(machine.memory_bytes, "B"),
            "GPU": machine.gpu or "none",
            "device": last.device,
            "profile": ", ".join(sorted({record.profile for record in self.records})),
            "torch": machine.versions.get("torch", "unknown"),
            "Python": machine.python,
            "system": machine.system,
            "measured": f"{last.taken_at:%Y-%m-%d}",
        }


@dataclass(frozen=True)
class Judgement:
    """A claim and its verdict by each run, by the run's label."""

    claim: Claim
    verdicts: dict[str, Verdict]

    @property
    def tested(self) -> dict[str, Verdict]:
        """The verdicts of the runs that could test the claim."""
        return {label: verdict for label, verdict in self.verdicts.items() if verdict.outcome != UNTESTED}

    @property
    def agreed(self) -> bool:
        """Whether all runs that could test the claim came to the same verdict."""
        return len({verdict.outcome for verdict in self.tested.values()}) <= 1

    @property
    def changes(self) -> bool:
        """Whether the runs come to different outcomes, of which one may be that it can't test the claim."""
        return len({verdict.outcome for verdict in self.verdicts.values()}) > 1

    @property
    def firm_changes(self) -> bool:
        """Whether firm verdicts differ."""
        return (
            len({verdict.outcome for verdict in self.verdicts.values() if verdict.firm and verdict.figure != "–"}) > 1
        )

    @property
    def firmness_changes(self) -> bool:
        """Whether the verdict is firm in some runs only."""
        return len({verdict.firm for verdict in self.verdicts.values()}) > 1

    @property
    def first(self) -> tuple[str, Verdict]:
        """Label and verdict of the first run that could test the claim; of the first run if none could."""
        return next(iter((self.tested or self.verdicts).items()))


def load_runs(run: str | Path, results: str | Path) -> list[MachineRun]:
    """The runs to compare: the one in the folder `run`, if it exists, then those in each folder of `results`.

    A folder counts as one run per machine and device. Raises FileNotFoundError if there are no records at all.
    """
    folders = {"this run": run} if Path(run).exists() else {}
    for folder in sorted(Path(results).glob("*/")):
        folders[f"results/{folder.name}" if folder.name == "this run" else folder.name] = folder
    runs = []
    for label, folder in folders.items():
        by_place = read_records(folder).by_place()
        for (machine, device), records in by_place.items():
            runs.append(MachineRun(label if len(by_place) == 1 else f"{label}, {machine}, {device}", records))
    if not runs:
        raise FileNotFoundError(f"no records in {run} or {results}; `rlrepro reproduce` makes them")
    return runs


def judge(claims: Iterable[Claim], runs: Sequence[MachineRun]) -> list[Judgement]:
    """Each claim, judged by the records of each run separately."""
    return [Judgement(claim, {run.label: claim.verdict(run.records) for run in runs}) for claim in claims]


def verdict_rows(records: Records, claims: Iterable[Claim]) -> list[dict]:
    """A row for each claim, and for each machine and device whose records can test it.

    Keys: id, claim, quote (the article's own sentence), article, verdict, firm, figure, why, machine, chapter. A claim
    that no records can test has a row all the same.
    """
    by_place = Records(records).by_place()
    runs = [MachineRun(f"{machine} ({device})", records) for (machine, device), records in by_place.items()]
    return [
        {
            "id": judgement.claim.id,
            "claim": judgement.claim.sentence,
            "quote": judgement.claim.quote,
            "article": str(judgement.claim.article or ""),
            "verdict": verdict.outcome,
            "firm": verdict.firm,
            "figure": verdict.figure,
            "why": verdict.why,
            "machine": label,
            "chapter": judgement.claim.chapter,
        }
        for judgement in judge(claims, runs or [MachineRun("no records", Records())])
        for label, verdict in (judgement.tested or judgement.verdicts).items()
    ]


def verdict_markdown(rows: list[dict]) -> str:
    """The rows of `verdict_rows` as a Markdown table below the names of the articles, for a notebook."""
    cells = [
        (
            row["id"],
            with_quote(row["claim"], row["quote"]),
            shown(row["verdict"], row["firm"]),
            row["figure"],
            row["why"],
        )
        for row in rows
    ]
    return articles(row["article"] for row in rows) + markdown_table(("id", "claim", "verdict", "result", "why"), cells)


def articles(names: Iterable[str]) -> str:
    """A paragraph for each article that claims come from."""
    return "".join(f"Claims of the article {name}.\n\n" for name in dict.fromkeys(names) if name)


def with_quote(sentence: str, quote: str) -> str:
    """A claim with the article's own sentence, for a cell of a Markdown table."""
    return f"{sentence}<br>{quote}" if quote else sentence


def shown(outcome: str, firm: bool) -> str:
    """A verdict in Markdown."""
    return f"**{outcome}**" if firm else f"**{outcome}**, not firm"


def verdict_table(rows: list[dict], title: str = ""):
    """The rows of `verdict_rows` as a table of `rich`, for a terminal of any width."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", show_lines=True)
    table.add_column("claim", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what it says, what was measured, and why", overflow="fold")
    several_machines = len({row["machine"] for row in rows}) > 1
    for row in rows:
        text = Text.assemble((row["claim"], "bold"), "\n", row["figure"], "\n", (row["why"], "italic"))
        if several_machines:
            text.append(f"\non {row['machine']}", "dim")
        verdict = row["verdict"] if row["firm"] else f"{row['verdict']},\nnot firm"
        table.add_row(row["id"], Text(verdict, TERMINAL_COLORS[row["verdict"]]), text)
    return table
