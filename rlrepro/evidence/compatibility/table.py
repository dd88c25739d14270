"""What was found about releases, as a table of the book, and as what the fixes say of themselves."""

import re
from pathlib import Path

from packaging.version import Version

from rlrepro.evidence.compatibility.environments import PLAN
from rlrepro.evidence.records import Record, Records

NAME = "compatibility.works"
FIXES = Path(__file__).parents[2] / "fixes"
HEAD = '"""Releases that these fixes were tested with, in environments of their own: by `rlrepro matrix --write`."""'


def rows(records: Records) -> list[Record]:
    """The newest record of each fix in each environment, in the order of fixes and releases."""
    fixes = list(PLAN["fixes"])
    newest = {
        tuple(each.setting[key] for key in ("fix", "release", "python", "torch", "gymnasium")): each
        for each in records.where(NAME)
    }
    return sorted(newest.values(), key=lambda each: (fixes.index(each.setting["fix"]), _version(each)))


def markdown(records: Records) -> str:
    """The table of all rows: fix, library and release, Python, torch, and whether it works or why not."""
    lines = ["| fix | with | Python | torch | gymnasium | works |", "|---|---|---|---|---|---|"]
    for each in rows(records):
        known = {key: value or "–" for key, value in each.setting.items()}
        works = "yes" if each.value else f"no: {known['why'].replace('|', chr(92) + '|')}"
        lines.append(
            "| `{fix}` | {library} {release} | {python} | {torch} | {gymnasium} | ".format(**known) + works + " |"
        )
    return "\n".join(lines)


def tested_with(records: Records) -> dict[str, tuple[str, str]]:
    """Of each fix its library, and the releases that it works with and fails with, as its error says them."""
    found = {}
    for fix, plan in PLAN["fixes"].items():
        mine = [each for each in rows(records) if each.setting["fix"] == fix]
        works, fails = (
            list(dict.fromkeys(_release(each) for each in mine if each.value is value)) for value in (True, False)
        )
        fails = ", ".join(each for each in fails if each not in works)
        told = (", ".join(works) or "no release") + (f" (fails with {fails})" if fails else "")
        found |= dict.fromkeys(plan.get("names", [fix]), (plan["library"], told))
    return found


def write(records: Records, folder: Path = FIXES) -> list[Path]:
    """Write `tested_with.py` of each folder, and the line "Tested with ..." of each docstring; returns the files that
    have changed."""
    told, texts = tested_with(records), {}
    for product in sorted({plan["test"].split("/")[0] for plan in PLAN["fixes"].values()}):
        names = [
            name
            for fix, plan in PLAN["fixes"].items()
            for name in plan.get("names", [fix])
            if plan["test"].startswith(f"{product}/")
        ]
        entries = "".join(f'    "{name}": ("{told[name][0]}", "{told[name][1]}"),\n' for name in sorted(names))
        texts[folder / product / "tested_with.py"] = (
            f"{HEAD}\n\nTESTED_WITH = {{  # fix: library, releases\n{entries}}}\n"
        )
        for path in (folder / product).glob("*.py"):
            for name in names:
                text = texts.get(path, path.read_text())
                line = rf"(?s)(class {name}\b.*?\n    Tested with ).*?\.\n"
                if re.search(rf"^class {name}\b", text, re.MULTILINE):
                    texts[path] = re.sub(line, lambda found, name=name: f"{found[1]}{' '.join(told[name])}.\n", text)
    changed = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in changed:
        path.write_text(texts[path])
    return changed


def _release(record: Record) -> str:
    """The release of the fix's library; torch's, for a fix of any network."""
    library = PLAN["fixes"][record.setting["fix"]]["library"]
    return record.setting["torch"].partition("+")[0] if library == "torch" else record.setting["release"]


def _version(record: Record) -> Version:
    return Version(record.setting["release"])
