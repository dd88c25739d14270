"""Fixes written to files: shown as a diff first, then written completely or not at all."""

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
    """A file that has changed since it was scanned."""


@dataclass(frozen=True)
class FixedFile:
    """The old and the new content of a file."""

    path: Path
    before: bytes
    after: bytes
    diff: str

    def write(self) -> None:
        """Replace the old content with the new, keeping the file's permissions. Raises Changed if the file has changed
        since the scan, and OSError if it can't be written; in both cases the file is left unchanged."""
        if self.path.read_bytes() != self.before:
            raise Changed(f"{self.path} has changed since it was scanned: run again")
        part_file = self.path.resolve().with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            part_file.write_bytes(self.after)
            part_file.chmod(self.path.stat().st_mode)
            part_file.replace(self.path.resolve())
        finally:
            part_file.unlink(missing_ok=True)


def fixed_files(scan: Scan) -> list[FixedFile]:
    """The files with their edits applied. Skips a file that would no longer parse, one with mixed line endings, and
    further paths to the same file."""
    files = {}
    for path, edits in scan.edits.items():
        if (resolved := Path(path).resolve()) not in files and (fixed := _fixed_file(Path(path), edits)) is not None:
            files[resolved] = fixed
    return list(files.values())


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
    """The text in the file's own encoding, with its own line endings."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(before).readline)
    converted = text.replace("\n", "\r\n") if b"\r\n" in before else text
    return converted.encode(encoding)


def _notebook(path: Path, before: bytes, source: Source, edits: list[Edit]) -> tuple[bytes, str]:
    """Apply the edits cell by cell, so that magics stay as they are."""
    notebook, diffs = json.loads(before), []
    starts = [*source.starts, (source.text.count("\n") + 2, None)]
    for (start, number), (end, _) in pairwise(starts):
        cell_edits = [edit for edit in edits if start <= edit.line < end]
        cell = notebook["cells"][number] if cell_edits else None
        if cell is None:
            continue
        text = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        shifted = [
            Edit(edit.line - start + 1, edit.column, edit.end_line - start + 1, edit.end_column, edit.text)
            for edit in cell_edits
        ]
        new_text = rewritten(text, shifted)
        cell["source"] = new_text if isinstance(cell["source"], str) else new_text.splitlines(keepends=True)
        diffs.append(_diff(text, new_text, f"{path} cell {number}"))
    return _as_json(notebook, before), "".join(diffs)


def _as_json(notebook: dict, before: bytes) -> bytes:
    """The notebook in its own format: indentation, final newline, and lone surrogates escaped."""
    indent = re.match(rb"\{\r?\n( *)", before)
    newline = "\n" if before.endswith(b"\n") else ""
    options = {"indent": len(indent[1]) if indent else None}
    try:
        return (json.dumps(notebook, ensure_ascii=False, **options) + newline).encode()
    except UnicodeEncodeError:
        return (json.dumps(notebook, **options) + newline).encode()


def _diff(before: str, after: str, name: str) -> str:
    lines = unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="")
    return "".join(f"{line}\n" for line in lines)
