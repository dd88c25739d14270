"""The flags and events of workers, without processes."""

import math
import threading
import time

import pytest

from .done_events import DoneEvents
from .done_flags import ALLOWED, LONGEST_SECONDS, REMEMBERED, SAMPLED, DoneFlags


class FakeSemaphore(threading.Semaphore):
    def __init__(self, value):
        super().__init__(value)
        self.sleeps = 0

    def acquire(self, blocking=True, timeout=None):
        self.sleeps += blocking
        return super().acquire(blocking, timeout=timeout if blocking else None)


class FakeContext:
    Semaphore = FakeSemaphore


def wait_for(flags, seconds):
    """Wait once for a worker that is done after that time. Returns whether the parent went to sleep. It may wake up
    more than once: the worker releases its semaphore after setting its flag, perhaps after the previous wait has
    returned."""
    before = flags.semaphores[0].sleeps
    worker = threading.Timer(seconds, flags.__setitem__, (0, 1))
    worker.start()
    assert flags.wait([0], 10)
    worker.join(timeout=60)
    return flags.semaphores[0].sleeps > before


def test_it_stays_awake_only_for_steps_that_are_short_beside_waking_up():
    flags = DoneFlags(bytearray(1), FakeContext)
    while len(flags.latencies) < REMEMBERED:
        wait_for(flags, 0.01)
    assert flags.awake_seconds <= LONGEST_SECONDS / ALLOWED
    flags.latencies.clear()  # so that awake_seconds does not change
    flags.awake_seconds = 0.2
    wait_for(flags, 0.002)
    assert [wait_for(flags, 0.002) for _ in range(3)] == [False] * 3
    assert wait_for(flags, 0.6)  # awake for awake_seconds, then asleep
    start = time.process_time()
    assert wait_for(flags, 0.6)
    assert time.process_time() - start < 0.1  # asleep at once, since the last step was long


@pytest.mark.parametrize("latency, awake", [(50e-6, 50e-6 / ALLOWED), (2e-3, 0)])
def test_a_core_that_was_not_free_is_no_reason_to_stay_awake(latency, awake):
    flags = DoneFlags(bytearray(1), FakeContext)
    for _ in range(REMEMBERED):
        assert flags.awake_seconds == 0
        flags._remember(latency)
    assert flags.awake_seconds == awake


def test_it_sometimes_sleeps_to_measure_how_long_waking_up_takes():
    flags = DoneFlags(bytearray(1), FakeContext)
    flags.awake_seconds, flags.was_short, flags.returned_at = math.inf, True, 0
    assert 1 <= sum(wait_for(flags, 0.005) for _ in range(2 * SAMPLED)) <= 2


def test_an_event_is_cleared_when_its_worker_is_done():
    events = [threading.Event(), threading.Event()]
    done = DoneEvents(events)
    events[1].set()
    assert not done.wait([0, 1], 0.05) and [done[0], done[1]] == [False, True] and not events[1].is_set()
    events[0].set()
    assert done.wait([0, 1], 0.05) and not events[0].is_set()


def test_waiting_for_a_flag_ends():
    flags = DoneFlags(bytearray(2), FakeContext)
    flags[0] = 1
    assert not flags.wait([0, 1], 0.05) and not flags.wait([0, 1], 0.05)
    flags[1] = 1
    assert flags.wait([0, 1], 0.05) and list(flags.flags) == [0, 0]
