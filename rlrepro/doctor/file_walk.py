"""Walk a project's folders, skipping hidden folders, installed packages and build outputs."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv"}
ENVIRONMENT = ("pyvenv.cfg", "conda-meta")  # in the folder of a Python environment, unlike in one of RL environments


def folders_below(root: Path, skip: Callable[[Path], bool] = lambda path: False) -> Iterator[tuple[Path, list[str]]]:
    """(folder, sorted file names) for a folder and all folders below it. Symbolic links are not followed."""
    for folder, folders, files in os.walk(root, followlinks=False):
        path = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in SKIPPED
            and not any((path / name / marker).exists() for marker in ENVIRONMENT)
            and not skip(path / name)
        )
        yield path, sorted(files)
