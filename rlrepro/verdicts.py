"""Claims and records make verdicts: collected, printed as a table, or given to a program."""

import importlib
import pkgutil

from rlrepro.claims import Claim
from rlrepro.lab.records import Records

COLORS = {"supported": "green", "refuted": "red", "partly": "yellow", "not testable here": "dim"}


def all_claims() -> list[Claim]:
    """The claims of every case there is; a new case's module is found by being in `rlrepro.cases`."""
    import rlrepro.cases

    modules = (importlib.import_module(m.name) for m in pkgutil.iter_modules(rlrepro.cases.__path__, "rlrepro.cases."))
    return [claim for module in modules for claim in getattr(module, "CLAIMS", ())]


def verdict_rows(records: Records, claims: list[Claim] | None = None) -> list[dict[str, str]]:
    """One row a claim: id, claim, verdict, figure, why, machine, chapter. A claim is judged for each machine and
    device that the records come from."""
    rows = []
    for claim in all_claims() if claims is None else claims:
        for place in sorted({_place(record) for record in records}) or ["no records"]:
            verdict = claim.verdict(Records(record for record in records if _place(record) == place))
            rows.append(
                {
                    "id": claim.id,
                    "claim": claim.sentence,
                    "verdict": verdict.outcome,
                    "figure": verdict.figure,
                    "why": verdict.why,
                    "machine": place,
                    "chapter": claim.chapter,
                }
            )
    return rows


def _place(record) -> str:
    return f"{record.machine.name} ({record.device})"


def verdict_table(rows: list[dict[str, str]]):
    """The rows as a table of `rich`, for a terminal or a notebook."""
    from rich.table import Table

    table = Table(title=" / ".join(sorted({row["machine"] for row in rows})), title_justify="left", show_lines=True)
    for column, width in {"id": 4, "claim": 30, "verdict": 10, "figure": 24, "why": 40}.items():
        table.add_column(column, min_width=width if column in ("id", "verdict") else None, ratio=width)
    for row in rows:
        color = COLORS[row["verdict"]]
        table.add_row(row["id"], row["claim"], f"[{color}]{row['verdict']}[/]", row["figure"], row["why"])
    return table


def verdict_markdown(rows: list[dict[str, str]]) -> str:
    """The rows as a Markdown table, for a notebook."""
    columns = ("id", "claim", "verdict", "figure", "why")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = {**row, "verdict": f"**{row['verdict']}**"}
        lines.append(
            "| " + " | ".join(cells[column].replace("|", "\\|").replace("\n", " ") for column in columns) + " |"
        )
    return "\n".join(lines)
