"""Walk the folders of a project, without hidden ones, installed packages and build outputs."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env"}


def folders_below(root: Path, skip: Callable[[Path], bool] = lambda path: False) -> Iterator[tuple[Path, list[str]]]:
    """(folder, sorted file names) for a folder and all folders below it. Symbolic links are not followed."""
    for folder, folders, files in os.walk(root, followlinks=False):
        here = Path(folder)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in SKIPPED and not skip(here / name)
        )
        yield here, sorted(files)
