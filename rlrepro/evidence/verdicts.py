"""Claims and records make verdicts: collected, printed as a table, or given to a program."""

from rlrepro.evidence.claims import Claim
from rlrepro.evidence.records import Records

COLORS = {"supported": "green", "refuted": "red", "partly": "yellow", "not testable here": "dim"}


def verdict_rows(records: Records, claims: list[Claim]) -> list[dict[str, str]]:
    """One row a claim: id, claim, verdict, figure, why, machine, chapter. A claim is judged for each machine and
    device whose records can tell."""
    by_place = {f"{machine} ({device})": found for (machine, device), found in Records(records).by_place().items()}
    rows = []
    for claim in claims:
        verdicts = {place: claim.verdict(found) for place, found in by_place.items()}
        tested = {place: verdict for place, verdict in verdicts.items() if verdict.outcome != "not testable here"}
        for place, verdict in (tested or verdicts or {"no records": claim.verdict(Records())}).items():
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


def verdict_table(rows: list[dict[str, str]], title: str = ""):
    """The rows as a table of `rich`, for a terminal however narrow."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", show_lines=True)
    table.add_column("claim", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what it says, what was measured, and why", overflow="fold")
    for row in rows:
        text = Text.assemble((row["claim"], "bold"), "\n", row["figure"], "\n", (row["why"], "italic"))
        if len({each["machine"] for each in rows}) > 1:
            text.append(f"\non {row['machine']}", "dim")
        table.add_row(row["id"], Text(row["verdict"], COLORS[row["verdict"]]), text)
    return table


def verdict_markdown(rows: list[dict[str, str]]) -> str:
    """The rows as a Markdown table, for a notebook."""
    columns = ("id", "claim", "verdict", "figure", "why")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = {**row, "verdict": f"**{row['verdict']}**"}
        lines.append(markdown_row(*(cells[column] for column in columns)))
    return "\n".join(lines)


def markdown_row(*cells: str) -> str:
    """A line of a Markdown table, whatever is in its cells."""
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
