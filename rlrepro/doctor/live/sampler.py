"""Sample the threads of some processes five times a second, from a thread that only reads /proc.

Nothing is stopped, signalled or waited for, so that a sampled process can't tell, whatever happens to it.
"""

import os
import threading
import time
from collections import defaultdict
from contextlib import contextmanager

import psutil

from rlrepro.doctor.live.thread_stats import Crowd
from rlrepro.doctor.live.threads import children, readable, threads

INTERVAL_SECONDS = 0.2
FAMILY_SAMPLES = 5  # samples from one search for children to the next
BUSY = 0.25  # of the time, from which on a thread, or a process, is taken to want a core
CROWDED = 1.25  # threads that want a core, for each core, from which on they are too many


class ThreadSampler:
    """Samples the children of a process, and with `itself` its own threads; `crowd` sums up what it saw."""

    def __init__(self, pid: int, *, itself: bool = True):
        self.pid, self.itself, self._family = pid, itself, []
        self.crowd = Crowd(cores_of(pid), readable=readable())
        self._first, self._last, self._sampled_at = {}, {}, 0.0

    def sample(self) -> None:
        """One sample; nothing of it where the process has ended."""
        crowd, now = self.crowd, time.monotonic()
        if crowd.looks % FAMILY_SAMPLES == 0:
            self._family = [self.pid] * self.itself + children(self.pid)
        own = threading.get_native_id()
        latest = {(each.pid, each.tid): each for each in threads(self._family) if each.tid != own}
        if crowd.looks:
            self._compare(latest, now - self._sampled_at)
        for key, thread in latest.items():
            self._first.setdefault(key, thread if crowd.looks == 0 else None)
        self._last |= latest
        self._sampled_at = now
        crowd.looks += 1
        crowd.processes = max(crowd.processes, len(self._family))
        crowd.ran_seconds = self._spent("ran_seconds") or 0.0
        crowd.waited_seconds = self._spent("waited_seconds")

    def _compare(self, latest: dict, seconds: float) -> None:
        """With the sample before: who wanted a core, and for how much of the time."""
        wanted = defaultdict(list)
        for key, thread in latest.items():
            if (before := self._last.get(key)) is not None:
                wanted[thread.pid].append(thread.wanted_since(before, seconds))
        busy = {pid: shares for pid, shares in wanted.items() if sum(shares) >= BUSY}
        total = sum(map(sum, busy.values()))
        self.crowd.seconds += seconds
        if total < CROWDED * self.crowd.cores:
            return
        crowd = self.crowd
        before, crowd.crowded_looks = crowd.crowded_looks, crowd.crowded_looks + 1
        crowd.oversubscribed_seconds += seconds * (sum(_count(shares) > 1 for shares in busy.values()) > 1)
        for name, value in (("runnable", total), ("busy_processes", len(busy))):
            setattr(crowd, name, (getattr(crowd, name) * before + value) / crowd.crowded_looks)

    def _spent(self, name: str) -> float | None:
        """Seconds since the first sample, of all threads."""
        spent = [
            (getattr(last, name), getattr(self._first[key], name) if self._first[key] else 0.0)
            for key, last in self._last.items()
        ]
        return None if any(None in pair for pair in spent) else sum(last - first for last, first in spent)


@contextmanager
def sampled(*, itself: bool):
    """A Crowd that grows during the block: this process's children, and with `itself` its own threads."""
    sampler, over = ThreadSampler(os.getpid(), itself=itself), threading.Event()

    def keep_sampling():
        while not over.is_set():
            sampler.sample()
            over.wait(INTERVAL_SECONDS)

    thread = threading.Thread(target=keep_sampling, name="rlrepro thread sampler", daemon=True)
    thread.start()
    try:
        yield sampler.crowd
    finally:
        over.set()
        thread.join()


def _count(shares: list[float]) -> int:
    return sum(share >= BUSY for share in shares)


def cores_of(pid: int) -> int:
    """Cores that a process may use."""
    try:
        return len(psutil.Process(pid).cpu_affinity())
    except AttributeError:  # no such thing on macOS
        return psutil.cpu_count() or 1
