"""The events that workers set when they are done, and a parent that sleeps until they have."""

import time


class DoneEvents:
    """The workers' events in torchrl before 0.12.0, waited for as in 0.11."""

    def __init__(self, events):
        self.events = events

    def __getitem__(self, worker: int) -> bool:
        return self.events[worker].is_set()

    def wait(self, workers: list[int], seconds: float) -> bool:
        """Whether all workers are done within this many seconds; their events are then cleared."""
        end = time.monotonic() + seconds
        if not all(self.events[worker].wait(max(0.0, end - time.monotonic())) for worker in workers):
            return False
        for worker in workers:
            self.events[worker].clear()
        return True
