"""Findings as text, JSON, SARIF and GitHub annotations. Every format names the files that were not read in full."""

import json
from functools import cache
from pathlib import Path

from rlrepro.doctor.finding import Rule, all_rules
from rlrepro.doctor.scan import Scan
from rlrepro.metadata import address

MEASURED = Path(__file__).with_name("measured.json")  # written by rlrepro/course/rule_costs.py
LEVELS = {"high": "error", "medium": "warning", "low": "note"}  # SARIF's


def as_text(result: Scan) -> str:
    """A line per finding with its fix, then the files that were not read, what such problems cost, and the counts."""
    rules = all_rules()
    lines = [f"{finding}\n    fix: {rules[finding.code].fix}" for finding in result.findings]
    lines += [f"{file.path}: {file.why}" for file in result.left_out]
    lines += costs({finding.code for finding in result.findings})
    count = len(result.findings)
    lines.append(
        f"{result.read:,} file{'' if result.read == 1 else 's'} read, {len(result.left_out)} not read in full, "
        f"{count or 'no'} finding{'' if count == 1 else 's'}"
        + ("; for details: rlrepro doctor --explain CODE" * bool(count))
    )
    return "\n".join(lines)


def as_json(result: Scan, run: dict | None = None) -> str:
    """An object: `findings`, each with code, path, cell, line, column, message, confidence, fix and chapter;
    `left_out`, each with path and why; `read`, the number of files read; and `run`, the measurements of a run."""
    rules = all_rules()
    findings = [
        {
            "code": finding.code,
            "path": finding.path,
            "cell": finding.cell,
            "line": finding.line,
            "column": finding.column,
            "message": finding.message,
            "confidence": finding.confidence,
            "fix": rules[finding.code].fix,
            "chapter": rules[finding.code].chapter,
        }
        for finding in result.findings
    ]
    left_out = [{"path": file.path, "why": file.why} for file in result.left_out]
    document = {"findings": findings, "left_out": left_out, "read": result.read} | ({"run": run} if run else {})
    return json.dumps(document, indent=2, ensure_ascii=False)


def as_github(result: Scan) -> str:
    """Workflow commands, which GitHub shows as annotations of a pull request."""
    commands = {"high": "error", "medium": "warning", "low": "notice"}
    lines = [
        f"::{commands[finding.confidence]} file={_escaped(finding.path)},line={finding.line},col={finding.column},"
        f"title={finding.code}::{_escaped(finding.message, ',:')}"
        for finding in result.findings
    ]
    lines += [
        f"::notice file={_escaped(file.path)},title=not read::{_escaped(file.why, ',:')}" for file in result.left_out
    ]
    return "\n".join(lines)


def _escaped(text: str, exempt: str = "") -> str:
    codes = {"%": "%25", "\r": "%0D", "\n": "%0A", ",": "%2C", ":": "%3A"}
    return "".join(character if character in exempt else codes.get(character, character) for character in text)


def as_sarif(result: Scan) -> str:
    """SARIF 2.1.0, the format in which code scanners report to a forge."""
    rules = all_rules()
    codes = sorted({finding.code for finding in result.findings})
    driver = {
        "name": "rlrepro doctor",
        "informationUri": address(),
        "rules": [
            {
                "id": code,
                "shortDescription": {"text": rules[code].title},
                "fullDescription": {"text": rules[code].why},
                "help": {"text": rules[code].fix},
            }
            for code in codes
        ],
    }
    results = [
        {
            "ruleId": finding.code,
            "level": LEVELS[finding.confidence],
            "message": {"text": finding.message if finding.cell is None else f"cell {finding.cell}: {finding.message}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": Path(finding.path).as_posix()},
                        "region": {"startLine": finding.line, "startColumn": finding.column},
                    }
                }
            ],
        }
        for finding in result.findings
    ]
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    notes = [
        {
            "level": "warning",
            "message": {"text": file.why},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": Path(file.path).as_posix()}}}],
        }
        for file in result.left_out
    ]
    invocation = {"executionSuccessful": True, "toolExecutionNotifications": notes}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    return json.dumps({"version": "2.1.0", "$schema": schema, "runs": [run]}, indent=2, ensure_ascii=False)


FORMATS = {"text": as_text, "json": as_json, "sarif": as_sarif, "github": as_github}


def costs(codes: set[str]) -> list[str]:
    """What each of these problems cost where this course measured it, and which chapter explains it."""
    lines = ["\nWhat these problems cost where this course measured them:"] if codes else []
    for code in sorted(codes):
        lines.append(f"  {code} {_measured().get(code, ['see the chapter'])[0]}\n        {_chapter(all_rules()[code])}")
    return [*lines, ""] if lines else []


def explain(rule: Rule) -> str:
    """A rule's page: what it looks for, why it matters, the fix, and what was measured."""
    lines = [f"{rule.code}: {rule.title}", "", rule.why, "", f"Fix: {rule.fix}"]
    if measured := _measured().get(rule.code):
        lines += ["", "Measured:", *(f"  {line}" for line in measured)]
    lines += ["", f"Chapter: {_chapter(rule)}"]
    return "\n".join(lines)


def _chapter(rule: Rule) -> str:
    return f"{address()}/blob/main/notebooks/{rule.chapter}.ipynb"


@cache
def _measured() -> dict[str, list[str]]:
    return json.loads(MEASURED.read_text())
