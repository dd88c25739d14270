"""A chapter's figures drawn again from the records of each reference machine, in tabs at its end."""

import importlib
import inspect
import json
from pathlib import Path

import nbformat

from rlrepro.cases import all_claims
from rlrepro.evidence.records import MissingRecord, read_records

HEAD = """## On reference machines

The same figures from reference records, drawn by the same code. [The verdicts](06_verdicts.ipynb) say where machines
disagree.
"""


def tabs(chapter: str, results: Path, figures: Path) -> list:
    """Cells for the chapter's end: a tab for each machine in `results` with its records. Pictures go to `figures`."""
    plots = plots_of(chapter)
    found = [path for path in sorted(results.glob(f"*/{chapter}.jsonl")) if plots]
    if not found:
        return []
    parts = [HEAD, "::::::{tab-set}"]
    for path in found:
        records = read_records(path)
        if not records:
            continue
        last = records[-1]
        place = f"{last.machine.cpu}, {last.machine.cores} cores, {last.device}, torch {last.machine.versions['torch']}"
        parts += [
            f":::::{{tab-item}} {path.parent.name}, {last.profile}",
            f"{place}, profile {last.profile}, {last.taken_at:%Y-%m-%d}.",
        ]
        for name, plot in plots.items():
            try:
                figure = plot(records)
            except MissingRecord:
                continue
            file = figures / path.parent.name / chapter / f"{name}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(figure.png())
            alt = json.dumps(figure.alt(), ensure_ascii=False)
            image = f"```{{image}} /{file.relative_to(figures.parent)}\n:alt: {alt}\n```"
            parts.append(f"\n::::{{div}} scroll\n{image}\n::::")
        parts.append(":::::")
    return [nbformat.v4.new_markdown_cell("\n".join([*parts, "::::::"]))] if len(parts) > 2 else []


def plots_of(chapter: str) -> dict:
    """The functions of the chapter's case that draw from records alone, in the order of their file."""
    cases = {claim.chapter: claim.judge.__module__.removesuffix(".claims") for claim in all_claims()}
    if chapter not in cases:
        return {}
    module = importlib.import_module(f"{cases[chapter]}.plots")
    return {
        name: function
        for name, function in vars(module).items()
        if name.startswith("plot_") and _needs_records_alone(function)
    }


def _needs_records_alone(function) -> bool:
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    return [p.name for p in needed] == ["records"]
