"""How many threads of a process's children run or wait for a core while they work, as the system reports it."""

import threading
from pathlib import Path

import numpy as np
import psutil

from rlrepro.lab.limits import END_SECONDS

INTERVAL_SECONDS = 0.05
STATES = Path("/proc")  # Linux only


class ThreadSampler:
    """Samples this process's children once a folder holds `marks` files.

    `result` then has `runnable`, the mean number of their threads that run or wait for a core; it stays empty on
    systems other than Linux. A thread that waits for a lock sleeps and does not count; one that spins does.
    """

    def __init__(self, barrier: str, marks: int):
        self.barrier, self.marks, self.result = Path(barrier), marks, {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self):
        if STATES.exists():
            self._thread.start()
        return self

    def __exit__(self, *raised):
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def _sample(self) -> None:
        samples = []
        while not self._stopped.wait(INTERVAL_SECONDS):
            if len(list(self.barrier.iterdir())) >= self.marks:
                samples.append(sum(map(_runnable_threads, psutil.Process().children(recursive=True))))
        if samples:
            self.result = {"runnable": float(np.mean(samples))}


def _runnable_threads(process: psutil.Process) -> int:
    states = []
    for stat in (STATES / str(process.pid) / "task").glob("*/stat"):
        try:
            states.append(stat.read_text().rpartition(")")[2].split()[0])  # what follows the name of the thread
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return states.count("R")
