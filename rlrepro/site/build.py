"""Call Jupyter Book: a warning is an error, and nothing is asked of a network."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rlrepro.site.stage import BOOK, stage

RESULTS = BOOK.parent / "results"


class BookFailed(RuntimeError):
    """Jupyter Book warned of something, or failed."""


def build(run: Path, target: Path = BOOK, *, results: Path = RESULTS, repository: str = "") -> Path:
    """The book of that run, built in `target/_build/html`; returns its first page.

    Raises BookFailed with Jupyter Book's warnings, NothingToShow and ScriptUnavailable as `stage` does.
    """
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        source = Path(folder) / "book"
        stage(run, source, results=results, repository=repository)
        options = ["--path-output", str(target), "--all", "--warningiserror", "--keep-going", "--quiet"]
        command = [sys.executable, "-m", "jupyter_book.cli.main", "build", str(source), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            told = [line for line in done.stderr.splitlines() if re.search("warning|error", line, re.IGNORECASE)]
            raise BookFailed("Jupyter Book says:\n" + "\n".join(told or done.stderr.splitlines()[-20:]))
    return target / "_build" / "html" / "index.html"
