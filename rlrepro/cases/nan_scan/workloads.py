"""The workloads of the chapter. Each function runs under a release:

Release("tianshou==2.0.1").run(train, "SAC", stored=100_000, collects=20)

`stored` are transitions that the replay buffer already holds; `incremental` turns our fix on.
"""

import functools
import time
import tracemalloc
from contextlib import contextmanager

import numpy as np
import torch

from rlrepro.cases.nan_scan.buffers import filled_buffer
from rlrepro.cases.nan_scan.training import KINDS, make_trainer

WARMUP = 2  # collects, or searches
FAST_COLLECTS = 50  # per slow one


@contextmanager
def fix(incremental: bool):
    """Our fix, if `incremental`."""
    if not incremental:
        yield
        return
    from rlrepro.fixes import incremental_nan_check

    undo = incremental_nan_check()
    try:
        yield
    finally:
        undo()


@contextmanager
def hasnull_counters():
    """{"seconds", "whole"}: the time spent in hasnull so far, and how often it read the whole buffer."""
    from tianshou.data import ReplayBuffer

    counters, hasnull, getitem = {"seconds": 0.0, "whole": 0}, ReplayBuffer.hasnull, ReplayBuffer.__getitem__

    @functools.wraps(hasnull)
    def timed(self):
        start = time.perf_counter()
        try:
            return hasnull(self)
        finally:
            counters["seconds"] += time.perf_counter() - start

    @functools.wraps(getitem)
    def counted(self, index):
        counters["whole"] += isinstance(index, slice) and index == slice(None)
        return getitem(self, index)

    ReplayBuffer.hasnull, ReplayBuffer.__getitem__ = timed, counted
    try:
        yield counters
    finally:
        ReplayBuffer.hasnull, ReplayBuffer.__getitem__ = hasnull, getitem


def train(algorithm: str, stored: int, collects: int, incremental: bool = False, bad: tuple = (), **options) -> dict:
    """A training run of `collects` collects.

    "steps": seconds from one collect to the next, after the first WARMUP; "shares": the share of each that was spent
    looking for NaN; "whole_reads": how often the whole buffer was read for that; "weights": all weights at the end;
    "error": the exception that was raised, or None.
    """
    seconds, scan_times, error = [], [], None
    with fix(incremental), hasnull_counters() as counters:

        def on_collect(epoch, step):
            seconds.append(time.perf_counter())
            scan_times.append(counters["seconds"])

        trainer, trained_algorithm = make_trainer(algorithm, stored, collects + 1, on_collect, bad, **options)
        try:
            trainer.run()
        except RuntimeError as exception:
            error = f"{type(exception).__name__}: {exception}"
    steps, scans = np.diff(seconds)[WARMUP:], np.diff(scan_times)[WARMUP:]
    weights = torch.cat([parameter.detach().flatten() for parameter in trained_algorithm.parameters()]).numpy()
    return {
        "steps": steps,
        "shares": scans / steps,
        "whole_reads": counters["whole"],
        "weights": weights,
        "error": error,
    }


def train_both(algorithm: str, stored: int, collects: int, repeats: int) -> dict:
    """Training runs without the fix and with it, in turn; the results of `train`, by "without" and "with"."""
    runs = {"without": [], "with": []}
    for _ in range(repeats):
        for name in runs:
            runs[name].append(train(algorithm, stored, collects, incremental=name == "with"))
    return runs


def scan_seconds(kind: str, sizes: tuple[int, ...], repeats: int) -> dict[int, list[float]]:
    """Seconds of one `hasnull`, by the number of transitions in the buffer: `repeats` timings each, in turn, after
    WARMUP rounds that do not count, since the system may provide that much memory for the first time."""
    buffers = {stored: filled_buffer(kind, stored) for stored in sizes}
    seconds = {stored: [] for stored in sizes}
    for _ in range(WARMUP + repeats):
        for stored, buffer in buffers.items():
            start = time.perf_counter()
            buffer.hasnull()
            seconds[stored].append(time.perf_counter() - start)
    return {stored: times[WARMUP:] for stored, times in seconds.items()}


def check_memory(kind: str, stored: int, incremental: bool) -> dict:
    """Host memory of the check after a collect, in bytes on top of what was allocated before: {"peak", "stored"}.

    Counted by tracemalloc, to which NumPy reports each array. Python's own objects count too, so two runs differ by up
    to a thousandth.
    """
    algorithm = next(name for name, stored_kind in KINDS.items() if stored_kind == kind)
    with fix(incremental):
        trainer, _ = make_trainer(algorithm, stored, collects=3)
        trainer.reset()
        collector = trainer.params.training_collector
        buffer = collector.buffer
        if incremental:
            trainer._collect_training_data()  # the first check reads everything
        tracemalloc.start()
        try:
            trainer._collect_training_data()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    arrays = [value for value in buffer._meta.values() if isinstance(value, np.ndarray)]
    return {"peak": peak, "stored": sum(array[:1].nbytes for array in arrays) * stored}


def collect_ratios(stored: int, repeats: int) -> dict[str, list[float]]:
    """One collect of SAC with the check after it, tianshou's own over ours, in turn on the same buffer: ratios of the
    times of the "check" alone, and of "collect and check"."""
    ratios = {"check": [], "collect and check": []}
    with fix(incremental=True), hasnull_counters() as counters:
        trainer, _ = make_trainer("SAC", stored, collects=1)
        trainer.reset()
        ours = trainer._collect_training_data
        theirs = functools.partial(type(trainer)._collect_training_data.__wrapped__, trainer)
        ours()  # the first check reads everything

        def seconds(collect, calls):
            scanned, start = counters["seconds"], time.perf_counter()
            for _ in range(calls):
                collect()
            return {
                "check": (counters["seconds"] - scanned) / calls,
                "collect and check": (time.perf_counter() - start) / calls,
            }

        for _ in range(repeats):
            slow, fast = seconds(theirs, 1), seconds(ours, FAST_COLLECTS)
            for part, values in ratios.items():
                values.append(slow[part] / fast[part])
    return ratios
