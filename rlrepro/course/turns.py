"""Notebooks that run side by side take turns: a cell that measures time runs while no other cell does."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import psutil
from nbformat import NotebookNode

TIMED = "timed"  # the tag of cells whose result is a time or a ratio of times


class Stopped(RuntimeError):
    """The run was ended while a notebook waited for its turn."""


class Turns:
    """Which notebooks are at a cell. A timed cell waits until none is, and no other cell starts while it waits."""

    def __init__(self):
        self._changed = threading.Condition()
        self._at_a_cell: dict[str, bool] = {}  # by notebook, whether this cell is timed
        self._timed: list[str] = []  # the notebooks that wait to run a timed cell, in this order
        self._stopped = False

    def start(self, notebook: str, timed: bool) -> None:
        """Wait for the turn of a cell. Raises Stopped. The limits of cells limit the wait."""
        with self._changed:
            if timed:
                self._timed.append(notebook)
            self._changed.wait_for(lambda: self._stopped or self._may_start(notebook, timed))
            if timed:
                self._timed.remove(notebook)
            if self._stopped:
                raise Stopped("the run was ended")
            self._at_a_cell[notebook] = timed

    def end(self, notebook: str) -> None:
        """The cell has ended, or the notebook has."""
        with self._changed:
            self._at_a_cell.pop(notebook, None)
            self._changed.notify_all()

    def stop(self) -> None:
        """Start no more cells."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def hooks(self, notebook: str) -> dict:
        """The hooks of nbclient that take a turn for each cell of a notebook."""

        def start(cell: NotebookNode, cell_index: int) -> None:
            self.start(notebook, TIMED in cell.metadata.get("tags", ()))
            cell.metadata.papermill["start_time"] = datetime.now(UTC).isoformat()  # the wait doesn't count

        return {"on_cell_execute": start, "on_cell_executed": lambda **_: self.end(notebook)}

    def _may_start(self, notebook: str, timed: bool) -> bool:
        if timed:
            return not self._at_a_cell and self._timed[0] == notebook
        return not self._timed and True not in self._at_a_cell.values()


@contextmanager
def take_turns(jobs: int) -> Iterator[tuple[ThreadPoolExecutor, Turns]]:
    """Threads for `jobs` notebooks, and their turns. If the block ends with an error, their kernels are killed."""
    turns = Turns()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield pool, turns
        except BaseException:  # such as Ctrl-C
            pool.shutdown(wait=False, cancel_futures=True)
            turns.stop()
            for process in psutil.Process().children():
                with suppress(psutil.NoSuchProcess):
                    if any("ipykernel" in word for word in process.cmdline()):
                        process.kill()
            raise
