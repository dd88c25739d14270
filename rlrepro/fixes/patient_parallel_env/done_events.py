"""The events that workers set when they are done, and a parent that sleeps until they have."""

import time


class DoneEvents:
    """The workers' events in torchrl before 0.12.0, for one wait, which sleeps as in 0.11."""

    def __init__(self, events):
        self.events, self.done = events, set()

    def __getitem__(self, worker: int) -> bool:
        return worker in self.done or self.events[worker].is_set()

    def wait(self, workers: list[int], seconds: float) -> bool:
        """Whether all workers are done within this many seconds. The event of each that is done is cleared."""
        end = time.monotonic() + seconds
        for worker in workers:
            if worker not in self.done and self.events[worker].wait(max(0.0, end - time.monotonic())):
                self.events[worker].clear()
                self.done.add(worker)
        return self.done.issuperset(workers)
