"""The files of a project: Python texts and notebooks, however damaged; none is run."""

import ast
import io
import json
import os
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rlrepro.doctor.module import LARGEST, Module

LEFT_OUT = {
    "__pycache__",
    "node_modules",
    "site-packages",
    "build",
    "dist",
    "venv",
    "env",
}  # and what begins with a dot


@dataclass(frozen=True)
class LeftOut:
    """A file that was not read, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Source:
    """A text that was read. For a notebook, `starts` holds where each code cell begins: (line, number of the cell)."""

    path: str
    text: str
    tree: ast.Module
    starts: tuple[tuple[int, int], ...] = ()

    @cached_property
    def module(self) -> Module:
        return Module(self.tree, self.text, Path(self.path).parent)

    def place(self, line: int) -> tuple[int | None, int]:
        """The cell, and the line in it, of a line of the text."""
        before = [(start, cell) for start, cell in self.starts if start <= line]
        if not before:
            return None, line
        start, cell = before[-1]
        return cell, line - start + 1


def find(paths: Iterable[str | Path], exclude: Iterable[str] = ()) -> Iterator[Path]:
    """The .py and .ipynb files under the paths, in order; folders of installed packages and hidden ones are left out.
    Raises FileNotFoundError for a path that is not there."""
    for path in map(Path, paths):
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from _below(path, tuple(exclude))
        else:
            raise FileNotFoundError(f"there is no {path}")


def _below(root: Path, exclude: tuple[str, ...]) -> Iterator[Path]:
    for folder, folders, files in os.walk(root, followlinks=False):
        here = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in LEFT_OUT and not _excluded(here / name, root, exclude)
        )
        for name in sorted(files):
            path = here / name
            if path.suffix in (".py", ".ipynb") and not _excluded(path, root, exclude):
                yield path


def _excluded(path: Path, root: Path, patterns: tuple[str, ...]) -> bool:
    return any(path.relative_to(root).match(pattern) for pattern in patterns)


def read(path: Path) -> Source | LeftOut:
    """The file's text, parsed; or why it was left out. Never raises for what is in a file."""
    try:
        if not path.is_file():
            return LeftOut(str(path), "no regular file")
        if path.stat().st_size > LARGEST:
            return LeftOut(str(path), f"larger than {LARGEST / 2**20:.0f} MiB")
        content = path.read_bytes()
        text, starts = _notebook(content) if path.suffix == ".ipynb" else (_decoded(content), ())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the text that is parsed
            tree = ast.parse(text)
    except OSError as error:
        return LeftOut(str(path), f"can't be read: {error.strerror}")
    except SyntaxError as error:
        return LeftOut(str(path), f"no Python that can be parsed: {error.msg}, line {error.lineno}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return LeftOut(str(path), f"no text that can be parsed: {str(error)[:80]}")
    except (RecursionError, MemoryError):
        return LeftOut(str(path), "nested too deeply")
    return Source(str(path), text, tree, starts)


def _decoded(content: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    return io.TextIOWrapper(io.BytesIO(content), encoding).read()


def _notebook(content: bytes) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The code cells of a notebook as one text, with magics as comments."""
    lines, starts = [], []
    for number, cell in enumerate(json.loads(content)["cells"]):
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        starts.append((len(lines) + 1, number))
        whole = text.lstrip().startswith("%%")
        lines += [_without_magic(line, whole) for line in text.removesuffix("\n").split("\n")]
    return "\n".join(lines) + "\n", tuple(starts)


def _without_magic(line: str, whole: bool) -> str:
    """The line, or a statement that does nothing, so indented, in the place of a magic or a shell command."""
    bare = line.lstrip()
    if whole or bare.startswith(("%", "!", "?")) or (bare.endswith("?") and "#" not in bare):
        return line[: len(line) - len(bare)] + "pass"
    return line
