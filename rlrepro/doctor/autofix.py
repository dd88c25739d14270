"""Cures written into files: shown as a diff first, then written whole or not at all."""

import ast
import io
import json
import os
import re
import tokenize
from dataclasses import dataclass
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path

from rlrepro.doctor.edits import Edit, rewritten
from rlrepro.doctor.scan import Scan
from rlrepro.doctor.source_files import Source, read


class Changed(RuntimeError):
    """A file that is not what it was when it was examined."""


@dataclass(frozen=True)
class FixedFile:
    """A file's new content, beside the old."""

    path: Path
    before: bytes
    after: bytes
    diff: str

    def write(self) -> None:
        """Put the new content in the old one's place, with its permissions. Raises Changed where the file has changed
        since, and OSError where it can't be written; then it is as it was."""
        if self.path.read_bytes() != self.before:
            raise Changed(f"{self.path} has changed since it was examined: run again")
        part = self.path.resolve().with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            part.write_bytes(self.after)
            part.chmod(self.path.stat().st_mode)
            part.replace(self.path.resolve())
        finally:
            part.unlink(missing_ok=True)


def fixed_files(found: Scan) -> list[FixedFile]:
    """What each file would be with its edits. A file whose text would not parse any more is left out, and one with ends
    of lines of both kinds; of several names of a file, all but the first."""
    made = {}
    for path, edits in found.edits.items():
        if (real := Path(path).resolve()) not in made and (fixed := _fixed_file(Path(path), edits)) is not None:
            made[real] = fixed
    return list(made.values())


def _fixed_file(path: Path, edits: list[Edit]) -> FixedFile | None:
    source, before = read(path), path.read_bytes()
    if not isinstance(source, Source) or before.count(b"\n") != before.count(b"\r\n") > 0:
        return None
    text = rewritten(source.text, edits)
    try:
        ast.parse(text)
    except SyntaxError:
        return None
    if path.suffix == ".ipynb":
        after, diff = _notebook(path, before, source, edits)
    else:
        after, diff = _encoded(text, before), _diff(source.text, text, str(path))
    return FixedFile(path, before, after, diff) if diff else None


def _encoded(text: str, before: bytes) -> bytes:
    """In the file's own encoding, and with its own ends of lines."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(before).readline)
    lines = text.replace("\n", "\r\n") if b"\r\n" in before else text
    return lines.encode(encoding)


def _notebook(path: Path, before: bytes, source: Source, edits: list[Edit]) -> tuple[bytes, str]:
    """The cells that have edits, each by itself: its magics stay as they are."""
    notebook, diffs = json.loads(before), []
    starts = [*source.starts, (source.text.count("\n") + 2, None)]
    for (start, number), (end, _) in pairwise(starts):
        own = [each for each in edits if start <= each.line < end]
        cell = notebook["cells"][number] if own else None
        if cell is None:
            continue
        text = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        shifted = [
            Edit(each.line - start + 1, each.column, each.end_line - start + 1, each.end_column, each.text)
            for each in own
        ]
        new = rewritten(text, shifted)
        cell["source"] = new if isinstance(cell["source"], str) else new.splitlines(keepends=True)
        diffs.append(_diff(text, new, f"{path} cell {number}"))
    return _as_json(notebook, before), "".join(diffs)


def _as_json(notebook: dict, before: bytes) -> bytes:
    """Written as it was: so far indented, with its last end of line, and what is no Unicode escaped."""
    indent = re.match(rb"\{\r?\n( *)", before)
    end = "\n" if before.endswith(b"\n") else ""
    options = {"indent": len(indent[1]) if indent else None}
    try:
        return (json.dumps(notebook, ensure_ascii=False, **options) + end).encode()
    except UnicodeEncodeError:
        return (json.dumps(notebook, **options) + end).encode()


def _diff(before: str, after: str, name: str) -> str:
    lines = unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="")
    return "".join(f"{line}\n" for line in lines)
