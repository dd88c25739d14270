"""Reports to maintainers about problems that the newest release of their library still has. Each is a folder:

- `report.md`: the text, a template that `render` fills in;
- `show.py`: prints what is wrong, and exits with 1 while the problem exists;
- `test_regression.py`: a test in the style of the project's own;
- `change.diff`: the smallest change that fixes the problem, in the release that is installed here.

Pearl has no releases: its reports are for a commit. The variable RLREPRO_PEARL names the folder of its source.
"""

import ast
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from rlrepro.cases.large_actions import COMMIT
from rlrepro.evidence.records import Records, read_records
from rlrepro.evidence.tables import markdown_table
from rlrepro.lab.limits import END_SECONDS, waiting_for
from rlrepro.lab.releases import UPSTREAM
from rlrepro.lab.units import format_value
from rlrepro.metadata import tomllib

PEARL = "pearl"
REPORTS = Path(__file__).parent
RESULTS = REPORTS.parents[2] / "results"
UNITS_OF_ROWS = {"rows": "count", "stored": "count", "seconds": "s"}
PARTS = (
    ("The change", "change.diff", "diff"),
    ("A script that shows it", "show.py", "python"),
    ("A regression test", "test_regression.py", "python"),
)


class ChangeDoesNotApply(RuntimeError):
    """The installed release does not have the lines that a change replaces."""


@dataclass(frozen=True)
class Report:
    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def title(self) -> str:
        return (self.folder / "report.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")

    @property
    def package(self) -> str:
        """The import name of the package that the change is for."""
        return re.search(r"^--- a/(\w+)/", (self.folder / "change.diff").read_text(encoding="utf-8"), re.MULTILINE)[1]

    @property
    def package_folder(self) -> Path | None:
        """The folder of the installed package, or of Pearl's source; None if it is missing."""
        return _folder(self.package)


def reports() -> dict[str, Report]:
    """All reports by ID."""
    return {path.parent.name: Report(path.parent) for path in sorted(REPORTS.glob("*/report.md"))}


def render(report: Report, results: Path = RESULTS, level: int = 1) -> str:
    """The report in Markdown, with its title as a heading of that level. `results` has a folder per reference
    machine."""
    machines = {folder.name: read_records(folder) for folder in sorted(results.glob("*/"))}
    environment, version = Environment(undefined=StrictUndefined), _version(report.package)
    text = environment.from_string((report.folder / "report.md").read_text(encoding="utf-8")).render(
        release=f"{report.package} {version}",
        version=version,
        where=partial(where, report.package),
        table=partial(_tables, machines),
    )
    deeper = "#" * (level - 1)
    parts = [re.sub(r"^(?=#+ )", deeper, text, flags=re.MULTILINE)]
    for heading, file, language in PARTS:
        parts.append(f"{deeper}## {heading}\n\n```{language}\n{(report.folder / file).read_text(encoding='utf-8')}```")
    return "\n\n".join(parts) + "\n"


def where(package: str, target: str) -> str:
    """A link to the lines of "package.module:Class.method" or "package/header.h:function" in the installed release; for
    Pearl without its source, a link to the file."""
    module, _, name = target.partition(":")
    file, version = module if "/" in module else "/".join(module.split(".")) + ".py", _version(package)
    upstream = tomllib.loads(UPSTREAM.read_text(encoding="utf-8"))[package.replace("_", "-")]
    in_repository = file.removeprefix("torch/include/")
    if (folder := _folder(package)) is None:
        return f"[`{name}`, {file}]({upstream.partition('#')[0].format(version=version, file=in_repository)})"
    lines_of = _lines_of_python if file.endswith(".py") else _lines_of_cpp
    if not (lines := lines_of((folder.parent / file).read_text(encoding="utf-8"), name)):
        return f"`{name}`, which {package} {version} does not have in {file}"
    first, last = lines
    url = upstream.format(version=version, file=in_repository, first=first, last=last)
    return f"[`{name}`, {file}, lines {first} to {last}]({url})"


def _lines_of_python(source: str, name: str) -> tuple[int, int] | None:
    nodes = ast.parse(source).body
    for part in name.split("."):
        node = next((node for node in nodes if getattr(node, "name", None) == part), None)
        if node is None:
            return None
        nodes = node.body
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]), node.end_lineno


def _lines_of_cpp(source: str, name: str) -> tuple[int, int] | None:
    """From the line that begins the definition of a function to the brace below its beginning."""
    definition = re.search(rf"^( *)[^ \n].*\b{name}\(.*{{$(?:\n.*)*?\n\1}}", source, re.MULTILINE)
    return definition and tuple(source.count("\n", 0, end) + 1 for end in definition.span())


def _version(package: str) -> str:
    return COMMIT if package == PEARL else metadata.version(package).partition("+")[0]


def _folder(package: str) -> Path | None:
    if package == PEARL:
        source = os.environ.get("RLREPRO_PEARL")
        folder = Path(source).expanduser().resolve() / PEARL if source else None
        return folder if folder and folder.is_dir() else None
    spec = find_spec(package)
    return spec and Path(spec.submodule_search_locations[0])


def _tables(
    machines: dict[str, Records], name: str, row_key: str, column_key: str, labels: dict | None = None, **setting
) -> str:
    """A table for each reference machine with such records: their values by two keys of the setting. `labels` selects
    values of the column key and labels them."""
    tables = []
    for machine, records in machines.items():
        by_keys = {(r.setting[row_key], r.setting[column_key]): r for r in records.where(name, **setting)}
        columns = labels or {value: value for _, value in by_keys}
        if by_keys := {key: record for key, record in by_keys.items() if key[1] in columns}:
            rows = sorted({key[0] for key in by_keys})
            cells = [
                [
                    format_value(row, UNITS_OF_ROWS.get(row_key, "text")),
                    *(_value(by_keys.get((row, column))) for column in columns),
                ]
                for row in rows
            ]
            tables.append(
                f"{markdown_table((row_key, *map(str, columns.values())), cells)}\n\n*Measured on {machine}.*"
            )
    return "\n\n".join(tables) or "*There are no reference records for this table yet.*"


def _value(record) -> str:
    return format_value(record.value, record.unit) if record else "–"


@contextmanager
def applied(report: Report):
    """A folder for the front of PYTHONPATH, with a copy of the installed package to which the change is applied. Files
    that it does not change are links to the installed ones.

    Raises ChangeDoesNotApply if the installed release does not have these lines.
    """
    with tempfile.TemporaryDirectory(prefix="rlrepro-report-") as folder:
        if (package := report.package_folder) is None:
            advice = "set RLREPRO_PEARL to its folder" if report.package == PEARL else "install it"
            raise ChangeDoesNotApply(f"{report.id} needs the source of {report.package}: {advice}")
        diff = report.folder / "change.diff"
        changed = {Path(folder, path) for path in re.findall(r"^--- a/(.*)", diff.read_text("utf-8"), re.MULTILINE)}

        def copy_or_link(source, target):
            (shutil.copy2 if Path(target) in changed else os.symlink)(source, target)

        shutil.copytree(package, Path(folder) / package.name, copy_function=copy_or_link)
        command = ["git", "apply", "--unidiff-zero", "-p1", str(diff)]
        variables = os.environ | {"GIT_CEILING_DIRECTORIES": str(Path(folder).parent)}  # ignore enclosing repositories
        with waiting_for("git apply", END_SECONDS) as timeout:
            result = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=timeout)
        if result.returncode:
            raise ChangeDoesNotApply(
                f"{report.package} {_version(report.package)} does not have the lines that {report.id} "
                f"changes; if they were fixed upstream, remove the report: {result.stderr.strip()}"
            )
        yield Path(folder)
