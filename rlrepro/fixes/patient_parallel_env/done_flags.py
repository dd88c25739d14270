"""The flags that workers set when they are done, and a parent that sleeps until they have."""

import math
import time
from collections import deque
from multiprocessing.sharedctypes import RawArray

ALLOWED = 0.025  # share of a step's time for waking up; as much again may be lost, since a core is slow after a sleep
LONGEST_SECONDS = 200e-6  # for a free core to wake up, from the deepest idle states of servers
REMEMBERED = 16  # sleeps, of whose latencies the median is used
SAMPLED = 64  # waits, at least one of which sleeps, so that this latency is measured again


class DoneFlags:
    """torchrl's array of flags, with a semaphore for each worker, which releases it after setting its flag.

    `wait` sleeps on the semaphores. If a step is so short that waking up would cost more than ALLOWED of it, `wait`
    first polls the flags, as torchrl does, until the step has become too long for that. The time to wake up is
    measured from the moment at which a worker was done. A core that has gone idle takes long to wake up, and a parent
    that keeps it awake costs nothing. More than LONGEST_SECONDS means that no core was free; polling would not help.
    """

    def __init__(self, flags, context):
        self.flags = flags
        self.semaphores = [context.Semaphore(0) for _ in flags]
        self.done_at = RawArray("d", len(flags))  # seconds of the clock that all processes share
        self.latencies = deque(maxlen=REMEMBERED)  # seconds
        self.awake_seconds = 0.0  # of a step, from the end of one wait to that of the next
        self.waits, self.was_short = 0, False
        self.returned_at = -math.inf

    def __getitem__(self, worker: int) -> int:
        return self.flags[worker]

    def __setitem__(self, worker: int, flag: int) -> None:
        """Called by a worker, with 1. The flag is set first, so that the parent sees it when it wakes up."""
        self.done_at[worker] = time.monotonic()
        self.flags[worker] = flag
        self.semaphores[worker].release()

    def wait(self, workers: list[int], seconds: float) -> bool:
        """Whether all workers are done within this many seconds; their flags are then cleared."""
        end = time.monotonic() + seconds
        if self.was_short and self.waits % SAMPLED:
            self._poll(workers)
        for worker in workers:
            while not self.flags[worker]:
                if not self.semaphores[worker].acquire(timeout=max(0.0, end - time.monotonic())):
                    return False
                if self.flags[worker]:
                    self._remember(time.monotonic() - self.done_at[worker])
        for worker in workers:
            self.flags[worker] = 0
            self.semaphores[worker].acquire(False, timeout=0)  # left over if the flag was seen before the release
        now = time.monotonic()
        self.was_short = now - self.returned_at < self.awake_seconds
        self.returned_at = now
        self.waits += 1
        return True

    def _poll(self, workers: list[int]) -> None:
        end = self.returned_at + self.awake_seconds
        while not all(self.flags[worker] for worker in workers) and time.monotonic() < end:
            pass

    def _remember(self, latency: float) -> None:
        self.latencies.append(latency if latency <= LONGEST_SECONDS else 0.0)
        if len(self.latencies) == REMEMBERED:
            self.awake_seconds = sorted(self.latencies)[REMEMBERED // 2] / ALLOWED
