"""Call Jupyter Book, with warnings as errors and without network access."""

import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from rlrepro.course.site.assemble import BOOK, stage
from rlrepro.lab.garbage_collector import paused
from rlrepro.lab.limits import BOOK_SECONDS, TookTooLong, locked, waiting_for
from rlrepro.metadata import address

RESULTS = BOOK.parent / "results"
# Sphinx creates so many objects that garbage collections would take a fifth of its time.
CALL = "import gc, sys; gc.set_threshold(50_000); from jupyter_book.cli.main import main; sys.exit(main({arguments}))"


class BookFailed(RuntimeError):
    """Jupyter Book is not installed, gave a warning, or failed."""


def build(run: Path, target: Path = BOOK, *, results: Path = RESULTS) -> Path:
    """Build the book of that run in `target/_build/html`, and return its first page.

    An existing book is replaced once the new one is complete. Raises BookFailed with Jupyter Book's warnings, and
    NothingToShow as `stage` does.
    """
    if not find_spec("jupyter_book"):
        raise BookFailed("Jupyter Book is not installed; `make book` installs it, or: pip install --group dev")
    html = Path(target) / "_build" / "html"
    html.parent.mkdir(parents=True, exist_ok=True)
    lock = locked(html.parent / ".lock", "builds this book")
    with lock, tempfile.TemporaryDirectory(prefix=".new-", dir=html.parent) as folder:
        for leftover in set(html.parent.glob(".new-*")) - {Path(folder)}:  # of a build that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        source = Path(folder) / "source"
        with paused():
            stage(Path(run), source, results=results, repository=address())
        call = CALL.format(arguments=_arguments(source, folder))
        try:
            with waiting_for("Jupyter Book", BOOK_SECONDS) as timeout:
                completed = subprocess.run(
                    [sys.executable, "-c", call], capture_output=True, text=True, timeout=timeout
                )
        except TookTooLong as error:
            raise BookFailed(str(error)) from error
        if completed.returncode:
            raise BookFailed("Jupyter Book reported:\n" + "\n".join(_warnings(completed.stdout + completed.stderr)))
        if html.exists():
            html.rename(Path(folder) / "before")
        (Path(folder) / "_build" / "html").rename(html)
    return html / "index.html"


def _arguments(source: Path, out: str) -> list[str]:
    return ["build", str(source), "--path-output", out, "--all", "--warningiserror", "--keep-going", "--quiet"]


def _warnings(text: str) -> list[str]:
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    return [line for line in lines if re.search("warning:|error:", line, re.IGNORECASE)] or lines[-20:]
