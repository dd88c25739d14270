"""The folders of a project, without hidden ones and what is installed or built there."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env"}


def folders_below(root: Path, skip: Callable[[Path], bool] = lambda path: False) -> Iterator[tuple[Path, list[str]]]:
    """(folder, its file names in order) for a folder and all below it. Links are not followed."""
    for folder, folders, files in os.walk(root, followlinks=False):
        here = Path(folder)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in LEFT_OUT and not skip(here / name)
        )
        yield here, sorted(files)
