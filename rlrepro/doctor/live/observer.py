"""Looks at a process and its children from outside, at what their threads do.

python -m rlrepro.doctor.live.observer PID all|children FOLDER does so as nobody's child, until there is a file
FOLDER/over or the process has ended. FOLDER/observer then has its number, FOLDER/crowd what it saw so far.
"""

import json
import os
import sys
import time
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
LOOKED_INTO = 64  # threads at a look, at most
CROWDED = 1.25  # threads that want a core, for each core, from which on they are too many


class Observer:
    """Looks at a process (`itself`: or at its children alone); `crowd` says what it saw."""

    def __init__(self, pid: int, *, itself: bool = True):
        self.root, self.itself, self._family = psutil.Process(pid), itself, []
        self.crowd = Crowd(cores_of(self.root))
        self._first, self._last = {}, {}
        self._spins = Counter()

    def look(self) -> None:
        """One look. Raises psutil.NoSuchProcess once the process has ended."""
        if self.crowd.looks % FAMILY_LOOKS == 0:
            self._family = [self.root][: self.itself] + self.root.children(recursive=True)
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
        self._spins.update(spins(thread.pid, thread.tid) for thread in runnable[:LOOKED_INTO])
        known = self._spins[True] + self._spins[False]
        crowd.spinning = self._spins[True] / known if known else None
        crowd.ran_seconds = self._spent("ran_seconds") or 0.0
        crowd.waited_seconds = self._spent("waited_seconds")

    def _crowded(self, runnable) -> None:
        crowd = self.crowd
        before, crowd.crowded_looks = crowd.crowded_looks, crowd.crowded_looks + 1
        for name, now in (("runnable", len(runnable)), ("busy_processes", len({each.pid for each in runnable}))):
            setattr(crowd, name, (getattr(crowd, name) * before + now) / crowd.crowded_looks)

    def _spent(self, name: str) -> float | None:
        """Seconds since the first look, of all threads."""
        spent = [
            (getattr(last, name), getattr(self._first[key], name) if self._first[key] else 0.0)
            for key, last in self._last.items()
        ]
        return None if any(None in pair for pair in spent) else sum(last - first for last, first in spent)


def cores_of(process: psutil.Process) -> int:
    """Cores that a process may use."""
    try:
        return len(process.cpu_affinity())
    except AttributeError:  # no such thing on macOS
        return psutil.cpu_count() or 1


def write(folder: Path, name: str, text: str) -> None:
    """A file of the folder, whole or not at all; nothing where the folder is gone."""
    part = folder / f"{name}.part"
    with suppress(OSError):
        part.write_text(text)
        part.replace(folder / name)


def main() -> None:
    if os.fork():  # whoever started this may wait for all of its children, and this is to be none of them
        os._exit(0)
    folder = Path(sys.argv[3])
    with suppress(psutil.NoSuchProcess):
        observer = Observer(int(sys.argv[1]), itself=sys.argv[2] == "all")
        write(folder, "observer", str(os.getpid()))
        while folder.is_dir() and not (folder / "over").exists():
            observer.look()
            if observer.crowd.looks % WRITE_LOOKS == 1:
                write(folder, "crowd", json.dumps(asdict(observer.crowd)))
            time.sleep(LOOK_SECONDS)
        write(folder, "crowd", json.dumps(asdict(observer.crowd)))
    write(folder, "ended", "")


if __name__ == "__main__":
    main()
