"""How often the doctor is right on strangers' code: what was judged by reading, in the folder `field/`.

`repositories.csv` names public repositories with the commit that was read, and their group: the rules were written by
*steer*, corrected once by *count*, and finished before anybody looked at *fresh*. `findings.csv` has each finding of
confidence medium and up, with the verdict of a reader who did not know the rules, and `confidence` as it is now: empty
where what was learned has made the doctor silent. `sites.csv` has problems that readers found by themselves, and the
confidence with which the doctor names them, if it does.

`python -m rlrepro.doctor.field CHECKOUTS` looks again: CHECKOUTS are folders that hold a folder owner+name per
repository. It rewrites what is found, keeps verdicts by their place, and lists findings that nobody has judged.
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
NEAR = 8  # lines between a site as a reader noted it and a finding of it
PLACE = ("repository", "path", "cell", "line", "code")


def rows(name: str, folder: Path = FOLDER) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, table: list[dict], folder: Path = FOLDER) -> None:
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def groups(folder: Path = FOLDER) -> dict[str, str]:
    """The group of each repository."""
    return {each["repository"]: each["group"] for each in rows("repositories", folder)}


def precision(group: str, *, as_judged: bool = False, folder: Path = FOLDER) -> Counter:
    """How many findings of a group got each verdict: of those that the doctor has now, or had when they were judged."""
    of = groups(folder)
    findings = [each for each in rows("findings", folder) if of[each["repository"]] == group]
    return Counter(each["verdict"] for each in findings if as_judged or each["confidence"] in SURE)


def recall(group: str, folder: Path = FOLDER) -> tuple[int, int, int]:
    """(sites that are named with confidence medium or high, at all, all sites) of a group."""
    of = groups(folder)
    found = [each["found"] for each in rows("sites", folder) if of[each["repository"]] == group]
    return sum(each in SURE for each in found), sum(map(bool, found)), len(found)


def table(folder: Path = FOLDER) -> str:
    """Both numbers of each group, as a table in Markdown."""
    lines = ["| group | repositories | | findings | true | harmless | false |", "|---|---:|---|" + "---:|" * 4]
    for group, count in Counter(groups(folder).values()).items():
        for when, as_judged in (("when judged", True), ("now", False)):
            verdicts = precision(group, as_judged=as_judged, folder=folder)
            judged = sum(verdicts[each] for each in VERDICTS)
            shares = [f"{verdicts[each]} ({verdicts[each] / max(judged, 1):.0%})" for each in VERDICTS]
            lines.append(f"| {group} | {count} | {when} | {judged} | {' | '.join(shares)} |")
    lines += ["", "| group | known sites | named | of these with medium or high confidence |", "|---|---:|---:|---:|"]
    for group in dict.fromkeys(groups(folder).values()):
        sure, named, known = recall(group, folder)
        lines.append(
            f"| {group} | {known} | {named} ({named / max(known, 1):.0%}) | {sure} ({sure / max(known, 1):.0%}) |"
        )
    return "\n".join(lines)


def look(checkouts: list[Path], folder: Path = FOLDER) -> list[dict]:
    """Run the doctor on every repository, rewrite findings.csv and the column `found` of sites.csv, and return the
    findings without a verdict. Raises FileNotFoundError for a repository that is not checked out."""
    judged = {_place(each): each for each in rows("findings", folder)}
    sites, findings = rows("sites", folder), {place: each | {"confidence": ""} for place, each in judged.items()}
    for repository in groups(folder):
        top = next((each / repository.replace("/", "+") for each in checkouts if _has(each, repository)), None)
        if top is None:
            raise FileNotFoundError(f"{repository} is in none of {', '.join(map(str, checkouts))}")
        found = [_as_row(each, repository, top) for each in examine([top]).findings]
        for each in (row for row in found if row["confidence"] in SURE):
            known = judged.get(_place(each), {"verdict": "", "reason": ""})
            findings[_place(each)] = each | {name: known[name] for name in ("verdict", "reason")}
        for site in (each for each in sites if each["repository"] == repository):
            site["found"] = next((each["confidence"] for each in found if _is_at(each, site)), "")
    write("findings", list(findings.values()), folder)
    write("sites", sites, folder)
    return [each for each in findings.values() if not each["verdict"]]


def _place(finding: dict[str, str]) -> tuple[str, ...]:
    return tuple(finding[name] for name in PLACE)


def _has(folder: Path, repository: str) -> bool:
    return (folder / repository.replace("/", "+")).is_dir()


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
    """Whether a finding is of this site. In a notebook, sites have lines of the file, and findings those of a cell."""
    same = finding["path"] == site["path"] and finding["code"] in CODES[site["problem"]]
    return same and (finding["cell"] != "" or abs(int(finding["line"]) - int(site["line"])) <= NEAR)


def main() -> None:
    for each in look([Path(word) for word in sys.argv[1:]]):
        print("not judged:", *(each[name] for name in PLACE))
    print(table())


if __name__ == "__main__":
    main()
