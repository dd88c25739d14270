"""A chapter's figures, drawn again from the records of each reference machine, in tabs at its end."""

import inspect
import json
from pathlib import Path

import nbformat

from rlrepro.cases import case_of
from rlrepro.evidence.records import MissingRecord, Records, read_records

HEAD = """## On reference machines

The same figures from reference records, drawn by the same code. [The verdicts](06_verdicts.ipynb) say where machines
disagree.
"""


def reference_tabs(chapter: str, results: Path, figures: Path) -> list:
    """Cells for the end of the chapter: a tab for each machine in `results` with records. Pictures go to `figures`."""
    plots, tabs = plots_of(chapter), []
    for path in sorted(results.glob(f"*/{chapter}.jsonl")) if plots else ():
        if records := read_records(path):
            tabs.append(_tab(path, records, plots, figures))
    if not tabs:
        return []
    return [nbformat.v4.new_markdown_cell("\n".join([HEAD, "::::::{tab-set}", *tabs, "::::::"]))]


def _tab(path: Path, records: Records, plots: dict, figures: Path) -> str:
    last = records[-1]
    machine = last.machine
    place = f"{machine.cpu}, {machine.cores} cores, {last.device}, torch {machine.versions['torch']}"
    parts = [
        f":::::{{tab-item}} {path.parent.name}, {last.profile}",
        f"{place}, profile {last.profile}, {last.taken_at:%Y-%m-%d}.",
    ]
    for plot_name, plot in plots.items():
        try:
            figure = plot(records)
        except MissingRecord:
            continue
        file = figures / path.parent.name / path.stem / f"{plot_name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(figure.png())
        alt = json.dumps(figure.alt(), ensure_ascii=False)
        image = f"```{{image}} /{file.relative_to(figures.parent)}\n:alt: {alt}\n```"
        parts.append(f"\n::::{{div}} scroll\n{image}\n::::")
    return "\n".join([*parts, ":::::"])


def plots_of(chapter: str) -> dict:
    """The functions of the chapter's case that draw from records alone, in the order of their file."""
    case = case_of(chapter)
    return {
        name: function
        for name, function in (vars(case.plots) if case else {}).items()
        if name.startswith("plot_") and _needs_records_alone(function)
    }


def _needs_records_alone(function) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty] == ["records"]
