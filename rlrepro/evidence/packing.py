"""`rlrepro pack`: check the records of a run, and put them into an archive that a maintainer can add to results/."""

import tarfile
from collections.abc import Collection
from pathlib import Path

from rlrepro.evidence.records import Records, read_records


class NotComplete(ValueError):
    """Records that should not be added: some can't be read, they are of several machines, or chapters are missing."""


def pack(run: str | Path, to: str | Path | None = None, chapters: Collection[str] = ()) -> str:
    """Write MACHINE.tar.gz (or `to`), with the records of each chapter in a folder MACHINE, and return what was packed.

    Raises NotComplete, with all that is wrong, FileNotFoundError if there is no such run, and OSError if the archive
    can't be written: one that exists is then unchanged.
    """
    records = read_records(run)
    problems = [*records.problems, *_problems(records)]
    files = sorted(Path(run).glob("*.jsonl"))
    if missing := sorted(set(chapters) - {path.stem for path in files}):
        problems.append(
            f"no records of {', '.join(missing)}: run `rlrepro reproduce {' '.join(name[:2] for name in missing)}`"
        )
    if problems:
        raise NotComplete("\n".join(["nothing was packed:", *problems]))
    machine = records[-1].machine.name
    archive = Path(to or f"{machine}.tar.gz")
    partial = archive.with_name(f".{archive.name}.partial")
    try:
        with tarfile.open(partial, "w:gz", dereference=True) as archive_file:  # records may be links
            for path in files:
                archive_file.add(path, f"{machine}/{path.name}", filter=_without_owner)
        partial.replace(archive)
    finally:
        partial.unlink(missing_ok=True)
    return (
        f"{archive}: {len(records):,} records of {len(files)} chapters, profile {records[-1].profile}\n"
        "They describe the machine (processor, memory, GPU, versions) and contain nothing about you. To add them, "
        "unpack the archive in results/ of a fork and open a pull request, or attach it to an issue."
    )


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The file without the names and numbers of its user and group."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _problems(records: Records) -> list[str]:
    """What would make these records misleading as a reference."""
    if not records:
        return ["there are no records"]
    problems = []
    for trait, values in {
        "machines": {record.machine.name for record in records},
        "profiles": {record.profile for record in records},
    }.items():
        if len(values) > 1:
            problems.append(f"records of several {trait}, {', '.join(sorted(values))}: pack each run on its own")
    if {record.profile for record in records} == {"tiny"}:
        problems.append("profile tiny only shows that the notebooks run: use smoke or full")
    return problems
