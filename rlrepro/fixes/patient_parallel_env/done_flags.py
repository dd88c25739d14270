"""The flags by which workers say that they are done, and a parent that sleeps until they say so."""

import math
import time
from collections import deque
from multiprocessing.sharedctypes import RawArray

ALLOWED = 0.025  # of the time of a step, for waking up; as much again may be lost since a core is slow after a sleep
LONGEST_SECONDS = 200e-6  # that a free core takes to wake up, from the deepest idle states of servers
REMEMBERED = 16  # sleeps, whose median latency counts
SAMPLED = 64  # waits, of which one is a sleep in any case, so that this latency stays known


class DoneFlags:
    """torchrl's array of flags, with a semaphore for each worker, which it releases after it has set its flag.

    `wait` sleeps on the semaphores. Only if a step is so short that waking up would cost more than ALLOWED of it does
    `wait` first ask the flags in a loop, as torchrl does, until the step has become too long for that. How long waking
    up takes is measured, from the moment at which a worker was done. A core that has gone idle takes long, and nobody
    loses by a parent that keeps it awake. More than LONGEST_SECONDS means that no core was free; asking would not help.
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

    def __setitem__(self, worker: int, done: int) -> None:
        """Called by a worker, with 1. The flag is set first, so that whoever wakes up finds it."""
        self.done_at[worker] = time.monotonic()
        self.flags[worker] = done
        self.semaphores[worker].release()

    def wait(self, workers: list[int], seconds: float) -> bool:
        """Whether all are done within so many seconds; their flags are then cleared."""
        end = time.monotonic() + seconds
        if self.was_short and self.waits % SAMPLED:
            self._ask(workers)
        for worker in workers:
            while not self.flags[worker]:
                if not self.semaphores[worker].acquire(timeout=max(0.0, end - time.monotonic())):
                    return False
                if self.flags[worker]:
                    self._remember(time.monotonic() - self.done_at[worker])
        for worker in workers:
            self.flags[worker] = 0
            self.semaphores[worker].acquire(False, timeout=0)  # what a flag that was seen before it has left
        now = time.monotonic()
        self.was_short = now - self.returned_at < self.awake_seconds
        self.returned_at = now
        self.waits += 1
        return True

    def _ask(self, workers: list[int]) -> None:
        end = self.returned_at + self.awake_seconds
        while not all(self.flags[worker] for worker in workers) and time.monotonic() < end:
            pass

    def _remember(self, latency: float) -> None:
        self.latencies.append(latency if latency <= LONGEST_SECONDS else 0.0)
        if len(self.latencies) == REMEMBERED:
            self.awake_seconds = sorted(self.latencies)[REMEMBERED // 2] / ALLOWED
