"""Read the Python files and notebooks of a project, including damaged ones. They are never run."""

import ast
import io
import os
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rlrepro.doctor.ast_index import MAX_CHARACTERS, Module
from rlrepro.doctor.file_walk import folders_below
from rlrepro.doctor.notebook import code_of, without_broken_cells
from rlrepro.doctor.tolerant_parser import parse

MAX_NOTEBOOK_BYTES = 256 * 2**20  # bytes, which are mostly outputs


@dataclass(frozen=True)
class LeftOut:
    """A file that was not read in full, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Source:
    """A file that was read. For a notebook, `starts` has the start of each code cell as (line, cell number). `skipped`
    are the numbers of lines that this Python can't parse."""

    path: str
    text: str
    tree: ast.Module
    starts: tuple[tuple[int, int], ...] = ()
    skipped: tuple[int, ...] = ()

    @cached_property
    def module(self) -> Module:
        return Module(self.tree, self.text, Path(self.path))

    def place(self, line: int) -> tuple[int | None, int]:
        """(cell, line in that cell) of a line of the text; the cell is None in a Python file."""
        cells = [(start, cell) for start, cell in self.starts if start <= line]
        if not cells:
            return None, line
        start, cell = cells[-1]
        return cell, line - start + 1


def find(paths: Iterable[str | Path], exclude: Iterable[str] = ()) -> Iterator[Path]:
    """The .py and .ipynb files below the paths, sorted; skips hidden folders and folders of installed packages. Raises
    FileNotFoundError for a path that does not exist."""
    for path in map(Path, paths):
        if path.is_dir():
            yield from _below(path, tuple(exclude))
        elif os.path.lexists(path):
            yield path
        else:
            raise FileNotFoundError(f"{path} does not exist")


def _below(root: Path, exclude: tuple[str, ...]) -> Iterator[Path]:
    def excluded(path: Path) -> bool:
        return any(path.relative_to(root).match(pattern) for pattern in exclude)

    for folder, names in folders_below(root, excluded):
        for path in (folder / name for name in names):
            if path.suffix in (".py", ".ipynb") and not excluded(path):
                yield path


def read(path: Path) -> Source | LeftOut:
    """Read and parse a file, or give the reason why it was left out. Never raises because of a file's content."""
    try:
        if not path.is_file():
            return LeftOut(str(path), "not a regular file")
        is_notebook = path.suffix == ".ipynb"
        limit = MAX_NOTEBOOK_BYTES if is_notebook else MAX_CHARACTERS
        if path.stat().st_size > limit:
            return LeftOut(str(path), f"larger than {limit / 2**20:.0f} MiB")
        content = path.read_bytes()
        text, starts = code_of(content) if is_notebook else (_decoded(content), ())
        if len(text) > MAX_CHARACTERS:
            return LeftOut(str(path), f"its code is larger than {MAX_CHARACTERS / 2**20:.0f} MiB")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes and literals in the file
            try:
                tree, skipped = parse(text)
            except SyntaxError:
                text, skipped = without_broken_cells(text, starts) if starts else (text, ())
                tree, _ = parse(text)
    except OSError as error:
        return LeftOut(str(path), f"can't be read: {error.strerror}")
    except SyntaxError as error:
        return LeftOut(str(path), f"can't be parsed as Python: {error.msg}, line {error.lineno}")
    except (RecursionError, MemoryError):
        return LeftOut(str(path), "nested too deeply")
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        return LeftOut(str(path), f"can't be parsed: {str(error)[:80]}")
    return Source(str(path), text, tree, starts, skipped)


def _decoded(content: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError:  # an encoding of a package, such as future_fstrings
        encoding = "utf-8"
    return io.TextIOWrapper(io.BytesIO(content), encoding).read()
