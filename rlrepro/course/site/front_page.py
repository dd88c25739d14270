"""What the front page shows: a card for each problem, its measured gain, and a tile for each claim."""

import json
from collections.abc import Sequence

from rlrepro.doctor.triage import AT_MOST, load
from rlrepro.evidence.compare_runs import OUTCOME_STYLE, chapter_title
from rlrepro.evidence.verdicts import UNTESTED, Judgement, MachineRun
from rlrepro.lab.units import format_value

NOT_MEASURED = "not measured in this run"
SIZES = {
    "rows": "transitions",
    "envs": "environments",
    "run": "training runs",
    "seconds": "seconds per step",
}  # words for keys of records


def triage_data() -> str:
    """The data of the triage box, as JSON that can be embedded in a script element."""
    data = load()
    problems = [
        {"id": problem["id"], "signs": {kind: problem[kind] for kind in ("errors", "words")}}
        for problem in data["problem"]
    ]
    keys = {key: data[key] for key in ("traceback", "concepts")}
    return json.dumps(keys | {"problem": problems, "at_most": AT_MOST}).replace("</", "<\\/")


def cards(runs: Sequence[MachineRun]) -> str:
    """MyST: a card for each problem, with its fix as code and the number before and after it."""
    return "\n".join(_card(problem, runs) for problem in load()["problem"])


def _card(problem: dict, runs: Sequence[MachineRun]) -> str:
    section = f"#{problem['section']}" if problem["section"] else ""
    measured = f"**Before and after:** {gain(problem['proof'], runs)}\n\n" if "proof" in problem else ""
    rules = ", ".join(f"[{code}](rules.md#{code.lower()})" for code in problem["rules"])
    rules = f" · rules {rules}" if rules else ""
    chapter_link = f"[Why, and how it was measured](notebooks/{problem['chapter']}.ipynb{section})"
    return f"""\
:::{{card}} {problem["title"]}
:class-card: problem problem-{problem["id"]}
**You see:** {problem["see"]}

**Releases:** {problem["releases"]}

**Change:** {problem["change"]}

```{problem.get("language", "python")}
{problem["code"]}
```

{measured}{chapter_link} · [Install](install.md){rules}
:::
"""


def gain(proof: dict, runs: Sequence[MachineRun]) -> str:
    """The number before and after a fix, from the run that measured it at the largest size, or the first of several."""
    pairs = [pair for pair in (_pair(proof, run) for run in runs) if pair]
    return max(pairs, key=lambda pair: pair[0])[1] if pairs else NOT_MEASURED


def _pair(proof: dict, run: MachineRun) -> tuple[float, str] | None:
    if "ratio" in proof:
        records = run.records.where(proof["record"], **proof["ratio"])
        return (0, f"{_formatted(records[-1])} {proof['what']} ({run.label})") if records else None
    before, after = (
        {record.setting.get(proof["along"]): record for record in run.records.where(proof["record"], **proof[side])}
        for side in ("before", "after")
    )
    if not (common := set(before) & set(after)):
        return None
    size = max(common)
    numbers = f"{_formatted(before[size])} → {_formatted(after[size])}"
    return size, f"**{numbers}**, {proof['what']} ({size:,} {SIZES.get(proof['along'], proof['along'])}; {run.label})"


def _formatted(record) -> str:
    return format_value(record.value, record.unit)


def tiles(judgements: Sequence[Judgement], label: str) -> str:
    """MyST: a row for each chapter, with a tile for each of its claims that links to where it is measured."""
    rows = {}
    for judgement in judgements:
        claim, (measured_by, verdict) = judgement.claim, judgement.first
        mark = OUTCOME_STYLE[verdict.outcome][1]
        link = f"notebooks/{claim.chapter}.ipynb#{claim.section.replace(' ', '-')}"
        elsewhere = " .elsewhere" if measured_by != label and verdict.outcome != UNTESTED else ""
        disagree = "" if judgement.agreed else " .disagree"
        style = f".tile .{verdict.outcome.split()[0]}{elsewhere}{disagree}"
        rows.setdefault(claim.chapter, []).append(f"[[{mark} {claim.id}]({link})]{{{style}}}")
    return "\n\n".join(f"{chapter_title(chapter)} {' '.join(row)}" for chapter, row in rows.items())
