"""Pages that are generated: the command line, the rules of the doctor, sizes and times, and how to cite."""

import importlib.metadata
from functools import cache
from pathlib import Path

import click
import nbformat
import yaml
from packaging.requirements import Requirement

from rlrepro.cli import main
from rlrepro.course.rule_costs import measured
from rlrepro.doctor.finding import all_rules
from rlrepro.evidence.tables import markdown_table
from rlrepro.evidence.verdicts import MachineRun
from rlrepro.lab.units import format_value
from rlrepro.metadata import requirements

CITATION = Path(__file__).parents[3] / "CITATION.cff"
COLUMNS = 100  # of the help texts
EXTRAS = ("", "watch", "parallel", "fit", "course")


def help_of(command: str) -> str:
    """What `rlrepro COMMAND --help` prints, as a block of code."""
    context = click.Context(main.commands[command], info_name=f"rlrepro {command}", max_content_width=COLUMNS)
    return f"```text\n{main.commands[command].get_help(context)}\n```"


def rules(runs: list[MachineRun]) -> str:
    """MyST: a section for each rule of the doctor, with what it costs by the records of these runs."""
    costs = measured(runs)
    sections = []
    for code, rule in all_rules().items():
        lines = "\n".join(f"- {line}" for line in costs.get(code, ()))
        sections.append(
            f"## {code}\n\n**{rule.title[:1].upper() + rule.title[1:]}.** {rule.why}\n\n**Change:** {rule.fix}\n\n"
            + (f"**Measured:**\n\n{lines}\n\n" if lines else "**Measured:** nothing of its own; see the chapter.\n\n")
            + f"[Chapter {int(rule.chapter[:2])}](notebooks/{rule.chapter}.ipynb)"
        )
    return "\n\n".join(sections)


def times(run: Path) -> str:
    """How long each notebook of this run took, and in which profile."""
    rows = []
    for path in sorted(run.glob("[01]*.ipynb")):
        execution = nbformat.read(path, 4).metadata.get("papermill", {})
        if duration := execution.get("duration"):
            rows.append((path.stem, execution["parameters"].get("profile", "–"), format_value(duration, "s")))
    return markdown_table(("notebook", "profile", "took"), rows)


def sizes() -> str:
    """The disk space of each extra with all its requirements, as installed where the site was built."""
    rows = [(f"`rlrepro[{extra}]`" if extra else "`rlrepro`", *_size(extra)) for extra in EXTRAS]
    return markdown_table(("install", "packages besides it", "on the disk"), rows)


def _size(extra: str) -> tuple[str, str]:
    pending, bytes_by_name = [Requirement(line) for line in requirements(extra)], {}
    while pending:
        requirement = pending.pop()
        try:
            distribution = importlib.metadata.distribution(requirement.name)
        except importlib.metadata.PackageNotFoundError:  # a marker leaves it out here, or it is optional
            continue
        if distribution.name.lower() in bytes_by_name:
            continue
        bytes_by_name[distribution.name.lower()] = _bytes_of(distribution.name)
        for line in distribution.requires or ():
            dependency = Requirement(line)
            extras = requirement.extras or {""}
            if not dependency.marker or any(dependency.marker.evaluate({"extra": name}) for name in extras):
                pending.append(dependency)
    own_bytes = sum(path.stat().st_size for path in Path(__file__).parents[2].rglob("*.*") if path.suffix != ".pyc")
    return f"{len(bytes_by_name)}", format_value(own_bytes + sum(bytes_by_name.values()), "B")


@cache
def _bytes_of(distribution: str) -> int:
    paths = (Path(file.locate()) for file in importlib.metadata.files(distribution) or ())
    return sum(path.stat().st_size for path in paths if path.is_file())


def bibtex(year: int) -> str:
    """CITATION.cff as BibTeX."""
    citation = yaml.safe_load(CITATION.read_text())
    authors = " and ".join(f"{{{author['name']}}}" for author in citation["authors"])
    fields = {"author": authors, "title": citation["title"], "version": citation["version"], "year": year}
    fields["url"] = citation["repository-code"]
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"```bibtex\n@software{{rlrepro,\n{lines}\n}}\n```"
