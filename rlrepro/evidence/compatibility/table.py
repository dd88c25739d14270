"""The results as a table for the book, and as the releases that each fix names in its docstring and errors."""

import re
from pathlib import Path

from packaging.version import Version

from rlrepro.evidence.compatibility.environments import PLAN
from rlrepro.evidence.records import Record, Records
from rlrepro.evidence.tables import markdown_table

NAME = "compatibility.works"
FIXES = Path(__file__).parents[2] / "fixes"
HEAD = '"""Releases that these fixes were tested with; written by `rlrepro matrix --write`."""'


def rows(records: Records) -> list[Record]:
    """The newest record for each fix and environment, ordered by fix and release."""
    fixes = list(PLAN["fixes"])
    newest = {
        tuple(record.setting[key] for key in ("fix", "release", "python", "torch", "gymnasium")): record
        for record in records.where(NAME)
    }
    return sorted(newest.values(), key=lambda r: (fixes.index(r.setting["fix"]), Version(r.setting["release"])))


def markdown(records: Records) -> str:
    """The table of all rows: fix, library and release, versions, and whether it works or why not."""
    cells = []
    for record in rows(records):
        setting = {key: value or "–" for key, value in record.setting.items()}
        label = "yes" if record.value else f"no: {setting['why']}"
        library = f"{setting['library']} {setting['release']}"
        cells.append((f"`{setting['fix']}`", library, setting["python"], setting["torch"], setting["gymnasium"], label))
    return markdown_table(("fix", "with", "Python", "torch", "gymnasium", "works"), cells)


def tested_with(records: Records) -> dict[str, tuple[str, str]]:
    """For each fix its library, and the releases it works and fails with, as its error messages list them."""
    texts = {}
    for fix, plan in PLAN["fixes"].items():
        releases = {True: [], False: []}
        for record in rows(records):
            if record.setting["fix"] == fix:
                releases[record.value].append(_release(record))
        working = dict.fromkeys(releases[True])
        failing = ", ".join(release for release in dict.fromkeys(releases[False]) if release not in working)
        text = (", ".join(working) or "no release") + (f" (fails with {failing})" if failing else "")
        texts |= dict.fromkeys(plan.get("names", [fix]), (plan["library"], text))
    return texts


def write(records: Records, folder: Path = FIXES) -> list[Path]:
    """Write `tested_with.py` in each folder, and the line "Tested with ..." in each docstring. Returns the changed
    files."""
    tested, texts = tested_with(records), {}
    for product in sorted({plan["test"].split("/")[0] for plan in PLAN["fixes"].values()}):
        names = [
            name
            for fix, plan in PLAN["fixes"].items()
            for name in plan.get("names", [fix])
            if plan["test"].startswith(f"{product}/")
        ]
        entries = "".join(f'    "{name}": ("{tested[name][0]}", "{tested[name][1]}"),\n' for name in sorted(names))
        texts[folder / product / "tested_with.py"] = (
            f"{HEAD}\n\nTESTED_WITH = {{  # fix: library, releases\n{entries}}}\n"
        )
        for path in (folder / product).glob("*.py"):
            for name in names:
                text = texts.get(path, path.read_text())
                line = rf"(?s)(class {name}\b.*?\n    Tested with ).*?\.\n"
                if re.search(rf"^class {name}\b", text, re.MULTILINE):
                    texts[path] = re.sub(line, lambda match, name=name: f"{match[1]}{' '.join(tested[name])}.\n", text)
    changed = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in changed:
        path.write_text(texts[path])
    return changed


def _release(record: Record) -> str:
    """The release of the fix's library, which is torch for a fix that works with any network."""
    library = PLAN["fixes"][record.setting["fix"]]["library"]
    return record.setting["torch"].partition("+")[0] if library == "torch" else record.setting["release"]
