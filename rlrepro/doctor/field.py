"""Precision and recall of the doctor on other people's code, from the judgements in the folder `field/`.

`repositories.csv` lists public repositories with the commit that was read and their group: *steer* guided the rules,
*count*, *fresh* and *latest* led to one correction each. *newest*, *last*, *next*, *blind*, *unseen*, *parallel*,
*workers*, *collections*, *topics* and *held-out* were counted after these.
`findings.csv` has the findings with at least medium confidence, the verdict of a reader who (except for *next*) did not
know the rules, and the current `confidence`, empty if the doctor no longer reports the finding. `sites.csv` has
problems that reviewers found on their own, and the confidence with which the doctor reports them, if it does.

`python -m rlrepro.doctor.field CHECKOUTS` runs the doctor again. CHECKOUTS are folders with one folder owner+name per
repository. It updates the findings, keeps the verdicts of known ones, and lists findings without a verdict.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

from rlrepro.doctor.scan import examine

FOLDER = Path(__file__).parents[2] / "field"
VERDICTS = ("true", "harmless", "false")
CODES = {
    "tensor-from-list": {"TO001"},
    "whole-rollout": {"RO001", "RO002"},
    "dataloader": {"TO004"},
    "processes": {"PT001"},
    "anomaly": {"TO002"},
    "validate-args": {"TO003"},
}
SURE = ("medium", "high")
MAX_DISTANCE = 8  # maximum distance in lines between a site as a reader noted it and a finding
PLACE = ("repository", "path", "cell", "line", "code")


def rows(name: str, folder: Path = FOLDER) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, records: list[dict], folder: Path = FOLDER) -> None:
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


def groups(folder: Path = FOLDER) -> dict[str, str]:
    """The group of each repository."""
    return {row["repository"]: row["group"] for row in rows("repositories", folder)}


def precision(group: str, *, as_judged: bool = False, folder: Path = FOLDER) -> Counter:
    """The number of findings of a group per verdict: current findings, or those reported when they were judged."""
    group_of = groups(folder)
    findings = [finding for finding in rows("findings", folder) if group_of[finding["repository"]] == group]
    return Counter(finding["verdict"] for finding in findings if as_judged or finding["confidence"] in SURE)


def recall(group: str, folder: Path = FOLDER) -> tuple[int, int, int]:
    """(sites reported with at least medium confidence, sites reported, all sites) of a group."""
    group_of = groups(folder)
    confidences = [site["found"] for site in rows("sites", folder) if group_of[site["repository"]] == group]
    return sum(confidence in SURE for confidence in confidences), sum(map(bool, confidences)), len(confidences)


def table(folder: Path = FOLDER) -> str:
    """Precision and recall per group, as Markdown tables, after a sentence about the group that was counted last."""
    last_group = [*groups(folder).values()][-1]
    verdicts = precision(last_group, as_judged=True, folder=folder)
    shares = [f"{verdicts[verdict] / max(verdicts.total(), 1):.0%} {verdict}" for verdict in VERDICTS]
    lines = [f"*{last_group}* was counted last, with {verdicts.total()} findings: {', '.join(shares)}.", ""]
    lines += ["| group | repositories | | findings | true | harmless | false |", "|---|---:|---|" + "---:|" * 4]
    for group, count in Counter(groups(folder).values()).items():
        for label, as_judged in (("when judged", True), ("now", False)):
            verdicts = precision(group, as_judged=as_judged, folder=folder)
            judged = sum(verdicts[verdict] for verdict in VERDICTS)
            shares = [f"{verdicts[verdict]} ({verdicts[verdict] / max(judged, 1):.0%})" for verdict in VERDICTS]
            lines.append(f"| {group} | {count} | {label} | {judged} | {' | '.join(shares)} |")
    lines += ["", "| group | known sites | named | of these with medium or high confidence |", "|---|---:|---:|---:|"]
    for group in dict.fromkeys(groups(folder).values()):
        sure, reported, total = recall(group, folder)
        if total:
            lines.append(f"| {group} | {total} | {reported} ({reported / total:.0%}) | {sure} ({sure / total:.0%}) |")
    return "\n".join(lines)


def look(checkouts: list[Path], folder: Path = FOLDER) -> list[dict]:
    """Run the doctor on every repository, update findings.csv and the column `found` of sites.csv, and return the
    findings without a verdict. Raises FileNotFoundError if a repository is not checked out."""
    judged = {_place(finding): finding for finding in rows("findings", folder)}
    sites, findings = rows("sites", folder), {place: row | {"confidence": ""} for place, row in judged.items()}
    for repository in groups(folder):
        top = next((path for checkout in checkouts if (path := checkout / repository.replace("/", "+")).is_dir()), None)
        if top is None:
            raise FileNotFoundError(f"{repository} is in none of {', '.join(map(str, checkouts))}")
        current = [_as_row(finding, repository, top) for finding in examine([top]).findings]
        for row in (row for row in current if row["confidence"] in SURE):
            judgement = judged.get(_place(row), {"verdict": "", "reason": ""})
            findings[_place(row)] = row | {name: judgement[name] for name in ("verdict", "reason")}
        for site in (site for site in sites if site["repository"] == repository):
            levels = {row["confidence"] for row in current if _is_at(row, site)}
            site["found"] = next((confidence for confidence in ("high", "medium", "low") if confidence in levels), "")
    write("findings", list(findings.values()), folder)
    write("sites", sites, folder)
    return [finding for finding in findings.values() if not finding["verdict"]]


def _place(finding: dict[str, str]) -> tuple[str, ...]:
    return tuple(finding[name] for name in PLACE)


def _as_row(finding, repository: str, top: Path) -> dict[str, str]:
    return {
        "repository": repository,
        "path": Path(finding.path).relative_to(top).as_posix(),
        "cell": "" if finding.cell is None else str(finding.cell),
        "line": str(finding.line),
        "code": finding.code,
        "confidence": finding.confidence,
    }


def _is_at(finding: dict[str, str], site: dict[str, str]) -> bool:
    """Whether a finding is at this site. In notebooks only the path counts, since findings count lines within a cell,
    and sites within the file."""
    is_same_problem = finding["path"] == site["path"] and finding["code"] in CODES[site["problem"]]
    return is_same_problem and (finding["cell"] != "" or abs(int(finding["line"]) - int(site["line"])) <= MAX_DISTANCE)


def main() -> None:
    for finding in look([Path(argument) for argument in sys.argv[1:]]):
        print("not judged:", *(finding[name] for name in PLACE))
    print(table())


if __name__ == "__main__":
    main()
