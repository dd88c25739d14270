"""What was found, for people and for programs: text, JSON, SARIF, and GitHub's annotations."""

import json
from pathlib import Path

from rlrepro.doctor.examination import Examination
from rlrepro.doctor.finding import Rule, all_rules
from rlrepro.project import address

RESULTS = Path(__file__).parents[2] / "results"
LEVELS = {"high": "error", "medium": "warning", "low": "note"}  # SARIF's


def as_text(found: Examination) -> str:
    """A line a finding with its cure below it, then what was not read, what such findings cost, and how many."""
    rules = all_rules()
    lines = [f"{finding}\n    cure: {rules[finding.code].cure}" for finding in found.findings]
    lines += [f"{each.path}: left out, {each.why}" for each in found.left_out]
    lines += costs({finding.code for finding in found.findings})
    count = len(found.findings)
    lines.append(
        f"{found.read:,} files read, {len(found.left_out)} left out, {count or 'no'} finding{'' if count == 1 else 's'}"
        + ("; rlrepro doctor --explain CODE says why" if count else "")
    )
    return "\n".join(lines)


def as_json(found: Examination) -> str:
    """A list of objects with code, path, cell, line, column, message, confidence, cure and chapter."""
    rules = all_rules()
    return json.dumps(
        [
            {
                "code": each.code,
                "path": each.path,
                "cell": each.cell,
                "line": each.line,
                "column": each.column,
                "message": each.message,
                "confidence": each.confidence,
                "cure": rules[each.code].cure,
                "chapter": rules[each.code].chapter,
            }
            for each in found.findings
        ],
        indent=2,
        ensure_ascii=False,
    )


def as_github(found: Examination) -> str:
    """Workflow commands, which GitHub shows beside the lines of a pull request."""
    commands = {"high": "error", "medium": "warning", "low": "notice"}
    lines = []
    for each in found.findings:
        message = each.message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        path = each.path.replace("%", "%25").replace(",", "%2C").replace(":", "%3A")
        lines.append(
            f"::{commands[each.confidence]} file={path},line={each.line},col={each.column},title={each.code}::{message}"
        )
    return "\n".join(lines)


def as_sarif(found: Examination) -> str:
    """SARIF 2.1.0, the form in which code scanners give their results to a forge."""
    rules = all_rules()
    used = sorted({each.code for each in found.findings})
    driver = {
        "name": "rlrepro doctor",
        "informationUri": address(),
        "rules": [
            {
                "id": code,
                "shortDescription": {"text": rules[code].title},
                "fullDescription": {"text": rules[code].why},
                "help": {"text": rules[code].cure},
            }
            for code in used
        ],
    }
    results = [
        {
            "ruleId": each.code,
            "level": LEVELS[each.confidence],
            "message": {"text": each.message if each.cell is None else f"cell {each.cell}: {each.message}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": Path(each.path).as_posix()},
                        "region": {"startLine": each.line, "startColumn": each.column},
                    }
                }
            ],
        }
        for each in found.findings
    ]
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"version": "2.1.0", "$schema": schema, "runs": [run]}, indent=2, ensure_ascii=False)


FORMATS = {"text": as_text, "json": as_json, "sarif": as_sarif, "github": as_github}


def costs(codes: set[str], results: Path = RESULTS) -> list[str]:
    """A few lines on what each of these problems cost where this course measured it, and where to read of it."""
    lines = ["\nWhat this course measured of these problems:"] if codes else []
    for code in sorted(codes):
        rule = all_rules()[code]
        measured = _measured(rule, results)
        lines.append(f"  {code} {measured[0] if measured else 'see the chapter'}\n        {_chapter(rule)}")
    return [*lines, ""] if lines else []


def explain(rule: Rule, results: Path = RESULTS) -> str:
    """A rule's page: what it finds, why it matters, what was measured of it, and the cure. What was measured comes from
    the reference records; a copy of rlrepro without them names the chapter alone."""
    lines = [f"{rule.code}: {rule.title}", "", rule.why, "", f"Cure: {rule.cure}"]
    measured = _measured(rule, results)
    if measured:
        lines += ["", "Measured:", *(f"  {line}" for line in measured)]
    lines += ["", f"Chapter: {_chapter(rule)}"]
    return "\n".join(lines)


def _chapter(rule: Rule) -> str:
    return f"{address()}/blob/main/notebooks/{rule.chapter}.ipynb"


def _measured(rule: Rule, results: Path) -> list[str]:
    if not rule.claims or not any(results.glob("*/*.jsonl")):
        return []
    from rlrepro.agreement import best, gather, judge_all
    from rlrepro.verdicts import all_claims

    claims = [claim for claim in all_claims() if claim.id in rule.claims]
    return [
        f"claim {each.claim.id}, “{each.claim.sentence}”: {best(each)[1].outcome}, {best(each)[1].figure}"
        for each in judge_all(gather(results / "none", results), claims)
    ]
