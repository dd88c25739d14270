"""What the system says of processes while they work: how many of their threads want a core."""

import threading
from pathlib import Path

import numpy as np
import psutil

from rlrepro.lab.limits import END_SECONDS

LOOK_SECONDS = 0.05
STATES = Path("/proc")  # Linux only


class Watch:
    """Looks at this process's children from when `count` files are in a folder.

    `seen` then has `runnable`, the mean number of their threads that run or wait for a core, where the system is Linux.
    A thread that waits for a lock sleeps and does not count; one that spins does.
    """

    def __init__(self, folder: str, count: int):
        self.folder, self.count, self.seen = Path(folder), count, {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        if STATES.exists():
            self._thread.start()
        return self

    def __exit__(self, *raised):
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def _look(self) -> None:
        found = []
        while not self._over.wait(LOOK_SECONDS):
            if len(list(self.folder.iterdir())) >= self.count:
                found.append(sum(map(_runnable_threads, psutil.Process().children(recursive=True))))
        if found:
            self.seen = {"runnable": float(np.mean(found))}


def _runnable_threads(process: psutil.Process) -> int:
    states = []
    for stat in (STATES / str(process.pid) / "task").glob("*/stat"):
        try:
            states.append(stat.read_text().rpartition(")")[2].split()[0])  # what follows the name of the thread
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return states.count("R")
