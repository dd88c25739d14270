"""Scan a project: apply every rule to every file, except where the project ignores it."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from rlrepro.doctor.ast_index import Module
from rlrepro.doctor.edits import Edit
from rlrepro.doctor.finding import Finding, Rule, all_rules
from rlrepro.doctor.project import Project, root_of
from rlrepro.doctor.runnable import can_run
from rlrepro.doctor.source_files import LeftOut, Source, find, read
from rlrepro.doctor.usage import is_used
from rlrepro.doctor.versions import Versions
from rlrepro.lab.garbage_collector import paused
from rlrepro.metadata import tomllib

IGNORED = re.compile(r"#\s*rlrepro:\s*ignore(?:\[([\w\s,]*)\])?")

RECENT = 100  # parsed files in the cache, since others may import them; a large project would fill the memory
UNUSED = ("archive", "archived", "backup", "deprecated", "legacy", "obsolete", "old", "unused")  # names of folders


class UnknownCode(ValueError):
    """A code that does not belong to any rule."""


@dataclass
class Scan:
    """The result of a scan: the findings, the files that were not read in full, and the number of files read. `edits`
    are the automatic fixes, by file."""

    findings: list[Finding] = field(default_factory=list)
    edits: dict[str, list[Edit]] = field(default_factory=dict)
    fixable: set[Finding] = field(default_factory=set)  # the findings that `edits` fix
    left_out: list[LeftOut] = field(default_factory=list)
    read: int = 0


@paused()  # syntax trees are millions of objects, which each garbage collection would traverse
def examine(
    paths: Iterable[str | Path],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    exclude: Iterable[str] = (),
    versions: Versions | None = None,
) -> Scan:
    """The findings in the .py and .ipynb files below the paths, sorted by place. The files are never run.

    Args:
        select, ignore: codes or prefixes of codes ("TS"); by default, all rules apply
        exclude: patterns of paths to skip
        versions: releases by library; by default, inferred from each project's pins and imports

    Raises FileNotFoundError for a path that does not exist, and UnknownCode for an unknown code.
    """
    paths = [Path(path) for path in paths]
    rules = chosen(select, ignore)
    result, projects = Scan(), {}
    read_once = lru_cache(RECENT)(read)

    def read_module(path: Path):
        source = read_once(path)
        return source.module if isinstance(source, Source) else None

    for start in paths:
        for path in find([start], exclude):
            source = read_once(path)
            if isinstance(source, LeftOut):
                result.left_out.append(source)
                continue
            root = root_of(path, start)
            if root not in projects:
                projects[root] = Project(root, read_module, versions or Versions(root=root))
            if source.skipped:
                places = map(source.place, source.skipped)
                where = dict.fromkeys(str(line) if cell is None else f"cell {cell}" for cell, line in places)
                reason = f"read without lines that can't be parsed: {', '.join(where)}"
                result.left_out.append(LeftOut(source.path, reason))
            for rule in rules:
                try:
                    _add(result, source, _findings(source, rule, projects[root]))
                except RecursionError:
                    result.left_out.append(LeftOut(source.path, "nested too deeply"))
                    break
                except Exception as error:  # a bug in one rule must not stop the others
                    reason = f"{rule.code} failed: {type(error).__name__}: {error}; please report it"
                    result.left_out.append(LeftOut(source.path, reason))
            else:
                result.read += 1
    result.findings.sort(
        key=lambda finding: (finding.path, finding.cell or 0, finding.line, finding.column, finding.code)
    )
    return result


def _add(result: Scan, source: Source, edits: dict[Finding, list[Edit]]) -> None:
    result.findings += edits
    result.fixable |= {finding for finding, fixes in edits.items() if fixes}
    for fixes in filter(None, edits.values()):
        result.edits.setdefault(source.path, []).extend(fixes)


def chosen(select: Iterable[str], ignore: Iterable[str], *, live: bool = False) -> list[Rule]:
    """The rules for files, or with `live` those for runs, that are selected and not ignored. Codes of the other kind
    are accepted, so that one configuration serves both. Raises UnknownCode for a code of neither kind."""
    rules = all_rules()
    for prefix in (*select, *ignore):
        if not any(code.startswith(prefix) for code in rules):
            raise UnknownCode(f"no rule's code begins with {prefix!r}; the codes are {', '.join(rules)}")
    prefixes = tuple(select) or ("",)
    return [
        rule
        for code, rule in rules.items()
        if rule.live is live and code.startswith(prefixes) and not code.startswith(tuple(ignore) or ("?",))
    ]


def _findings(source: Source, rule: Rule, project: Project) -> dict[Finding, list[Edit]]:
    """The findings of a rule in a file, at most one per line, each with the edits that fix it."""
    edits, by_line = {}, {}
    if not any(word in source.text for word in rule.words):
        return edits
    for node, message, confidence in rule.check(source.module, project):
        if not _is_ignored(source, node, rule.code):
            confidence = "low" if confidence != "low" and not _runs(source.module, project, node) else confidence
            cell, line = source.place(node.lineno)
            finding = Finding(source.path, cell, line, node.col_offset + 1, rule.code, message, confidence)
            finding = by_line.setdefault((cell, line), finding)
            fixable = (finding.confidence != "low" or rule.fix_when_low) and not source.skipped
            edits.setdefault(finding, []).extend(rule.autofix(source.module, node) if fixable and rule.autofix else [])
    return edits


def _runs(module: Module, project: Project, node) -> bool:
    folders = module.path.parts[len(project.root.parts) : -1]
    is_retired = bool({folder.lower() for folder in folders} & {*UNUSED})
    return not (module.is_test or is_retired) and is_used(project, module, node) and can_run(project, module)


def _is_ignored(source: Source, node, code: str) -> bool:
    """Whether a line of the statement has a comment that silences the rule."""
    end = getattr(node, "end_lineno", None) or node.lineno
    comments = (IGNORED.search(line) for line in source.text.split("\n")[node.lineno - 1 : end])
    return any(match and (match[1] is None or code in re.split(r"[\s,]+", match[1])) for match in comments)


def configuration(start: Path) -> dict[str, list[str]]:
    """The table [tool.rlrepro] of the nearest pyproject.toml at or above a path, with the lists of strings select,
    ignore and exclude. Raises ValueError for anything else in it. A file that can't be read is reported on stderr and
    ignored, since it must not prevent a scan or a run."""
    start = start.resolve()
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            try:
                settings = tomllib.loads(path.read_text()).get("tool", {}).get("rlrepro", {})
            except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError, OSError) as error:
                print(f"{path} can't be read, so its settings are not used: {error}", file=sys.stderr)
                return {}
            expected = f"{path}: [tool.rlrepro] takes select, ignore and exclude, each a list of strings; found "
            if not isinstance(settings, dict):
                raise ValueError(f"{expected}{settings!r}")
            for name, value in settings.items():
                is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
                if name not in ("select", "ignore", "exclude") or not is_list:
                    raise ValueError(f"{expected}{name} = {value!r}")
            return settings
    return {}
