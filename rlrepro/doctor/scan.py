"""Examine a project: every rule on every text, less what its owner has said to ignore."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rlrepro.doctor.edits import Edit
from rlrepro.doctor.finding import Finding, Rule, all_rules
from rlrepro.doctor.project import Project, root_of
from rlrepro.doctor.sources import LeftOut, Source, find, read
from rlrepro.doctor.versions import Versions
from rlrepro.metadata import tomllib

IGNORED = re.compile(r"#\s*rlrepro:\s*ignore(?:\[([\w\s,]*)\])?")


class UnknownCode(ValueError):
    """A code that no rule has."""


@dataclass
class Examination:
    """The findings, which files were not read in full and why, and how many were read. `edits` are fixes that can be
    written mechanically, by file."""

    findings: list[Finding] = field(default_factory=list)
    edits: dict[str, list[Edit]] = field(default_factory=dict)
    fixable: set[Finding] = field(default_factory=set)  # by these edits
    left_out: list[LeftOut] = field(default_factory=list)
    read: int = 0


def examine(
    paths: Iterable[str | Path],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    exclude: Iterable[str] = (),
    versions: Versions | None = None,
) -> Examination:
    """Every finding in the .py and .ipynb files under the paths, in their order. Nothing of them is run.

    select, ignore  codes, or their beginnings ("TS"); none selected is all
    exclude         patterns of paths that are left out
    versions        releases by library; by default what each project pins, and what its code needs

    Raises FileNotFoundError for a path that does not exist, and UnknownCode for a code that no rule has.
    """
    paths = [Path(path) for path in paths]
    rules = chosen(select, ignore)
    result, projects, sources = Examination(), {}, {}

    def module(path: Path):
        source = sources[path] if path in sources else read(path)
        return source.module if isinstance(source, Source) else None

    for top in paths:
        for path in find([top], exclude):
            source = sources[path] = read(path)
            if isinstance(source, LeftOut):
                result.left_out.append(source)
                continue
            root = root_of(path, top)
            if root not in projects:
                projects[root] = Project(root, module, versions or Versions(root=root))
            if source.skipped:
                lines = ", ".join(str(source.place(line)[1]) for line in source.skipped)
                result.left_out.append(LeftOut(source.path, f"read without lines that can't be parsed: {lines}"))
            for rule in rules:
                try:
                    _add(result, source, _findings(source, rule, projects[root]))
                except RecursionError:
                    result.left_out.append(LeftOut(source.path, "nested too deeply"))
                    break
                except Exception as error:  # a rule's own mistake: the other files and rules are not to blame
                    why = f"{rule.code} failed: {type(error).__name__}: {error}; please report it"
                    result.left_out.append(LeftOut(source.path, why))
            else:
                result.read += 1
            sources.pop(path)  # a project of thousands of files need not be held
    result.findings.sort(key=lambda each: (each.path, each.cell or 0, each.line, each.column, each.code))
    return result


def _add(result: Examination, source: Source, edits: dict[Finding, list[Edit]]) -> None:
    result.findings += edits
    result.fixable |= {finding for finding, needed in edits.items() if needed}
    for needed in filter(None, edits.values()):
        result.edits.setdefault(source.path, []).extend(needed)


def chosen(select: Iterable[str], ignore: Iterable[str], *, live: bool = False) -> list[Rule]:
    """The rules that read files, or those that watch a run, whose codes begin as selected and not as ignored. A code of
    the other half is accepted, so that one configuration serves both. Raises UnknownCode for one that neither has."""
    rules = all_rules()
    for prefix in (*select, *ignore):
        if not any(code.startswith(prefix) for code in rules):
            raise UnknownCode(f"no rule {prefix!r}; there are {', '.join(rules)}")
    wanted = tuple(select) or ("",)
    return [
        each
        for code, each in rules.items()
        if each.live is live and code.startswith(wanted) and not code.startswith(tuple(ignore) or ("?",))
    ]


def _findings(source: Source, rule: Rule, project: Project) -> dict[Finding, list[Edit]]:
    """The findings of a rule in a text, each with the edits that fix it."""
    edits = {}
    if not any(word in source.text for word in rule.words):
        return edits
    for node, message, confidence in rule.check(source.module, project):
        if not _is_ignored(source, node, rule.code):
            confidence = "low" if source.module.is_test else confidence
            cell, line = source.place(node.lineno)
            finding = Finding(source.path, cell, line, node.col_offset + 1, rule.code, message, confidence)
            sure = (confidence != "low" or rule.fix_when_low) and not source.skipped
            edits[finding] = rule.autofix(source.module, node) if sure and rule.autofix else []
    return edits


def _is_ignored(source: Source, node, code: str) -> bool:
    """Whether a line of a statement has a comment that says so."""
    last = getattr(node, "end_lineno", None) or node.lineno
    comments = (IGNORED.search(line) for line in source.text.split("\n")[node.lineno - 1 : last])
    return any(said and (said[1] is None or code in re.split(r"[\s,]+", said[1])) for said in comments)


def configuration(start: Path) -> dict[str, list[str]]:
    """[tool.rlrepro] of the nearest pyproject.toml at or above a path: select, ignore and exclude, lists of texts.
    Raises ValueError for anything else in it."""
    start = start.resolve()
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            try:
                settings = tomllib.loads(path.read_text()).get("tool", {}).get("rlrepro", {})
            except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError, OSError) as error:
                raise ValueError(f"{path} can't be read: {error}") from None
            expected = f"{path}: [tool.rlrepro] takes select, ignore and exclude, each a list of texts; it has "
            if not isinstance(settings, dict):
                raise ValueError(f"{expected}{settings!r}")
            for name, value in settings.items():
                texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
                if name not in ("select", "ignore", "exclude") or not texts:
                    raise ValueError(f"{expected}{name} = {value!r}")
            return settings
    return {}
