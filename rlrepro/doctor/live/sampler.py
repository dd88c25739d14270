"""Sample the threads of some processes five times a second, from a thread that only reads /proc.

Nothing is stopped, signaled or waited for, so a sampled process does not notice it.
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
BUSY = 0.25  # share of the time from which a thread or a process counts as wanting a core
CROWDED = 1.25  # threads that want a core, per core, from which there are too many


class ThreadSampler:
    """Samples the children of a process, and with `itself` also its own threads; `crowd` sums up the samples."""

    def __init__(self, pid: int, *, itself: bool = True):
        self.pid, self.itself, self._family = pid, itself, []
        self.crowd = Crowd(cores_of(pid), readable=readable())
        self._first, self._last, self._sampled_at = {}, {}, 0.0

    def sample(self) -> None:
        """Take one sample; processes that have ended are left out."""
        crowd, now = self.crowd, time.monotonic()
        if crowd.samples % FAMILY_SAMPLES == 0:
            self._family = [self.pid] * self.itself + children(self.pid)
        own_tid = threading.get_native_id()
        latest = {(thread.pid, thread.tid): thread for thread in threads(self._family) if thread.tid != own_tid}
        if crowd.samples:
            self._compare(latest, now - self._sampled_at)
        for key, thread in latest.items():
            self._first.setdefault(key, thread if crowd.samples == 0 else None)
        self._last |= latest
        self._sampled_at = now
        crowd.samples += 1
        crowd.processes = max(crowd.processes, len(self._family))
        crowd.ran_seconds = self._spent("ran_seconds") or 0.0
        crowd.waited_seconds = self._spent("waited_seconds")

    def _compare(self, latest: dict, seconds: float) -> None:
        """Compare with the sample before: which threads wanted a core, and for what share of the time."""
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
        count, crowd.crowded_samples = crowd.crowded_samples, crowd.crowded_samples + 1
        crowd.oversubscribed_seconds += seconds * (sum(_count(shares) > 1 for shares in busy.values()) > 1)
        for name, value in (("runnable", total), ("busy_processes", len(busy))):
            setattr(crowd, name, (getattr(crowd, name) * count + value) / crowd.crowded_samples)

    def _spent(self, name: str) -> float | None:
        """Seconds since the first sample, of all threads."""
        spent = [
            (getattr(last, name), getattr(self._first[key], name) if self._first[key] else 0.0)
            for key, last in self._last.items()
        ]
        return None if any(None in pair for pair in spent) else sum(last - first for last, first in spent)


@contextmanager
def sampled(*, itself: bool):
    """A Crowd that is updated during the block: this process's children, and with `itself` also its own threads."""
    sampler, stop = ThreadSampler(os.getpid(), itself=itself), threading.Event()

    def keep_sampling():
        while not stop.is_set():
            sampler.sample()
            stop.wait(INTERVAL_SECONDS)

    thread = threading.Thread(target=keep_sampling, name="rlrepro thread sampler", daemon=True)
    thread.start()
    try:
        yield sampler.crowd
    finally:
        stop.set()
        thread.join()


def _count(shares: list[float]) -> int:
    return sum(share >= BUSY for share in shares)


def cores_of(pid: int) -> int:
    """The number of cores that a process may use."""
    try:
        return len(psutil.Process(pid).cpu_affinity())
    except AttributeError:  # macOS does not have it
        return psutil.cpu_count() or 1
