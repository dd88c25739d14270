"""Looks at a process and its children from outside, at what their threads do.

python -m rlrepro.doctor.live.observer PID FILE does so until its standard input ends, and writes what it saw.
"""

import json
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil

from rlrepro.doctor.live.crowd import Crowd
from rlrepro.doctor.live.spinning import spins
from rlrepro.doctor.live.threads import threads

LOOK_SECONDS = 0.1
WRITE_LOOKS, FAMILY_LOOKS = 10, 5  # looks from one writing to the next, and from one search for children
CROWDED = 1.25  # threads that want a core, for each core, from which on they are too many


class Observer:
    """Looks at a process and its children; `crowd` says what it saw."""

    def __init__(self, pid: int, path: Path | None = None):
        self.root, self._family, self.path = psutil.Process(pid), [], path
        self.crowd = Crowd(cores_of(self.root))
        self._first, self._last = {}, {}
        self._spins = Counter()

    def watch(self, over: threading.Event) -> None:
        """Look again and again until it is over, or the process has ended."""
        with suppress(psutil.NoSuchProcess):
            while not over.wait(LOOK_SECONDS):
                self.look()
                if self.crowd.looks % WRITE_LOOKS == 1:
                    self._write()
        self._write()

    def look(self) -> None:
        """One look. Raises psutil.NoSuchProcess once the process has ended."""
        if self.crowd.looks % FAMILY_LOOKS == 0:
            children = self.root.children(recursive=True)
            self._family = [self.root, *(child for child in children if child.pid != os.getpid())]
        found = threads(self._family)
        for thread in found:
            beginning = thread if self.crowd.looks == 0 else None
            self._first.setdefault((thread.pid, thread.tid), beginning)
            self._last[thread.pid, thread.tid] = thread
        runnable = [thread for thread in found if thread.runnable]
        crowd = self.crowd
        crowd.looks += 1
        crowd.processes = max(crowd.processes, len(self._family))
        if len(runnable) >= CROWDED * crowd.cores:
            self._crowded(runnable)
        crowd.ran_seconds = self._spent("ran_seconds") or 0.0
        crowd.waited_seconds = self._spent("waited_seconds")

    def _crowded(self, runnable) -> None:
        crowd = self.crowd
        before, crowd.crowded_looks = crowd.crowded_looks, crowd.crowded_looks + 1
        for name, now in (("runnable", len(runnable)), ("busy_processes", len({each.pid for each in runnable}))):
            setattr(crowd, name, (getattr(crowd, name) * before + now) / crowd.crowded_looks)
        self._spins.update(spins(thread.pid, thread.tid) for thread in runnable)
        known = self._spins[True] + self._spins[False]
        crowd.spinning = self._spins[True] / known if known else None

    def _spent(self, name: str) -> float | None:
        """Seconds since the first look, of all threads."""
        spent = [
            (getattr(last, name), getattr(self._first[key], name) if self._first[key] else 0.0)
            for key, last in self._last.items()
        ]
        return None if any(None in pair for pair in spent) else sum(last - first for last, first in spent)

    def _write(self) -> None:
        if self.path is not None:
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(asdict(self.crowd)))
            part.replace(self.path)


def cores_of(process: psutil.Process) -> int:
    """Cores that a process may use."""
    try:
        return len(process.cpu_affinity())
    except AttributeError:  # no such thing on macOS
        return psutil.cpu_count() or 1


def main() -> None:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), over.set()), daemon=True).start()
    Observer(int(sys.argv[1]), Path(sys.argv[2])).watch(over)


if __name__ == "__main__":
    main()
