"""Examine a project: every rule on every text, less what its owner has said to ignore."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rlrepro.doctor.edits import Edit
from rlrepro.doctor.finding import Finding, Rule, all_rules
from rlrepro.doctor.sources import LeftOut, Source, find, read
from rlrepro.doctor.versions import Versions, versions_of
from rlrepro.project import tomllib

IGNORED = re.compile(r"#\s*rlrepro:\s*ignore(?:\[([\w\s,]*)\])?")


class UnknownCode(ValueError):
    """A code that no rule has."""


@dataclass
class Examination:
    """What was found, which files were not read and why, and how many were. `edits` are cures that can be written
    mechanically, by file."""

    findings: list[Finding] = field(default_factory=list)
    edits: dict[str, list[Edit]] = field(default_factory=dict)
    curable: set[Finding] = field(default_factory=set)  # by these edits
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
    versions        releases by library; by default what the project pins, else what is installed

    Raises FileNotFoundError for a path that is not there, and UnknownCode for a code that no rule has.
    """
    paths = list(paths)
    rules = chosen(select, ignore)
    versions = versions_of(paths) if versions is None else versions
    result = Examination()
    for path in find(paths, exclude):
        source = read(path)
        if isinstance(source, LeftOut):
            result.left_out.append(source)
            continue
        try:
            edits = _findings(source, rules, versions)
            result.findings += sorted(
                edits, key=lambda each: (each.path, each.cell or 0, each.line, each.column, each.code)
            )
            result.curable |= {each for each, needed in edits.items() if needed}
            if any(edits.values()):
                result.edits[source.path] = [edit for needed in edits.values() for edit in needed]
            result.read += 1
        except RecursionError:
            result.left_out.append(LeftOut(source.path, "nested too deeply"))
    return result


def chosen(select: Iterable[str], ignore: Iterable[str], *, live: bool = False) -> list[Rule]:
    """The rules of texts, or of running trainings, whose codes begin as selected and not as ignored."""
    rules = {code: each for code, each in all_rules().items() if each.live is live}
    for prefix in (*select, *ignore):
        if not any(code.startswith(prefix) for code in rules):
            raise UnknownCode(f"no rule {prefix!r}; there are {', '.join(rules)}")
    wanted = tuple(select) or ("",)
    return [
        each for code, each in rules.items() if code.startswith(wanted) and not code.startswith(tuple(ignore) or ("?",))
    ]


def _findings(source: Source, rules, versions) -> dict[Finding, list[Edit]]:
    """What was found in a text, each with the edits that cure it."""
    lines = source.text.split("\n")
    found = {}
    for rule in rules:
        if not any(word in source.text for word in rule.words):
            continue
        for node, message, confidence in rule.check(source.module, versions):
            last = getattr(node, "end_lineno", None) or node.lineno
            if any(_is_ignored(line, rule.code) for line in lines[node.lineno - 1 : last]):
                continue
            cell, line = source.place(node.lineno)
            finding = Finding(source.path, cell, line, node.col_offset + 1, rule.code, message, confidence)
            sure = rule.fix is not None and confidence != "low"
            found[finding] = rule.fix(source.module, node) if sure else []
    return found


def _is_ignored(line: str, code: str) -> bool:
    said = IGNORED.search(line)
    return bool(said) and (said[1] is None or code in re.split(r"[\s,]+", said[1]))


def configuration(start: Path) -> dict:
    """[tool.rlrepro] of the nearest pyproject.toml at or above a path: select, ignore and exclude, each a list. Raises
    ValueError for anything else in it."""
    start = start.resolve()
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            try:
                found = tomllib.loads(path.read_text()).get("tool", {}).get("rlrepro", {})
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ValueError(f"{path} can't be read: {error}") from None
            for name, value in found.items():
                if name not in ("select", "ignore", "exclude") or not isinstance(value, list):
                    raise ValueError(
                        f"{path}: [tool.rlrepro] has lists select, ignore and exclude, found {name} = {value!r}"
                    )
            return found
    return {}
