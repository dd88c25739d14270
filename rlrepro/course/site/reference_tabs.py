"""A chapter's figures, drawn again from the records of each reference machine, in tabs at its end."""

import inspect
from pathlib import Path

import nbformat

from rlrepro.cases import case_of, parallel_training, slice_sampler
from rlrepro.evidence.records import MissingRecord, Records, read_records

HEAD = """## On reference machines

The same figures from reference records, drawn by the same code. [The verdicts](06_verdicts.ipynb) say where machines
disagree.
"""
GPU_TABLES = {  # what a chapter shows only where it runs on a GPU
    "03_slice_sampler": lambda records: slice_sampler.tables.article_table(records, ("cpu", "cuda")),
    "04_parallel_training": lambda records: parallel_training.tables.gpu_table(records),
}


def reference_tabs(chapter: str, results: Path) -> list:
    """Cells for the end of the chapter: a tab for each machine in `results` with records."""
    plots, tabs = plots_of(chapter), []
    for path in sorted(results.glob(f"*/{chapter}.jsonl")) if plots else ():
        if records := read_records(path):
            tabs.append(_tab(path, records, plots))
    if not tabs:
        return []
    return [nbformat.v4.new_markdown_cell("\n".join([HEAD, "::::::{tab-set}", *tabs, "::::::"]))]


def _tab(path: Path, records: Records, plots: dict) -> str:
    latest = records[-1]
    machine = latest.machine
    platform = f"{machine.cpu}, {machine.cores} cores, {latest.device}, torch {machine.versions['torch']}"
    parts = [
        f":::::{{tab-item}} {path.parent.name}, {latest.profile}",
        f"{platform}, profile {latest.profile}, {latest.taken_at:%Y-%m-%d}.",
    ]
    figures = [figure for figure in (_drawn(plot, records) for plot in plots.values()) if figure]
    if missing := len(plots) - len(figures):
        parts.append(
            f"{missing} of the {len(plots)} figures are missing, because what they show was not measured there."
        )
    parts += [f"\n```{{raw}} html\n{figure.html()}\n```" for figure in figures]
    if path.stem in GPU_TABLES and latest.device.startswith("cuda"):
        parts.append(f"\n{_drawn(GPU_TABLES[path.stem], records) or ''}\n")
    return "\n".join([*parts, ":::::"])


def _drawn(plot, records: Records):
    """The figure or table, or None if the records do not have all of its measurements."""
    try:
        return plot(records)
    except MissingRecord:
        return None


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
