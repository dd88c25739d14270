"""peak_memory(fn): the peak memory of a call."""

import gc
import os
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

# Otherwise torch's profiler writes to stderr on every use.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch

from rlrepro.lab.machine import resolve_device
from rlrepro.lab.units import format_value

_measuring = threading.RLock()  # torch has one profiler per process
_measurers = set()  # threads that measure, or wait for their turn


@dataclass(frozen=True)
class PeakMemory:
    """The memory of one call, in bytes above the level at its start."""

    peak_bytes: int  # maximum of live bytes
    held_bytes: int  # still live after the call, including its result
    device: str

    def __str__(self) -> str:
        return f"peak {format_value(self.peak_bytes, 'B')}, held {format_value(self.held_bytes, 'B')} ({self.device})"


def peak_memory(fn: Callable[[], object], *, device: str = "auto", warmup: int = 1) -> PeakMemory:
    """Measure the peak of live bytes during `fn()`, above the level at its start.

    On CPU, the result comes from torch's profiler, which records every allocation of the calling thread, including
    the temporaries of operators; it is the same on every run. On CUDA, it is the caching allocator's
    `max_memory_allocated`. Memory that torch does not allocate, such as NumPy arrays, does not count.

    `fn` is first called `warmup` times, since the first call may fill caches that stay; those results are freed
    before the measured call. On CPU, torch only reports the release of a block whose allocation it has recorded, so
    memory that `fn` frees but that was allocated before the warm-up, or by another thread, is not subtracted. What
    threads of `fn` allocate does not count on CPU; if it starts any, a RuntimeWarning says so. Measurements in several
    threads take turns.

    Exceptions of `fn` pass through. Raises NoGPUError if CUDA is requested but not available. Measurements can't be
    nested: on CPU, an inner one raises RuntimeError; on CUDA, it resets the peak of the outer one.
    """
    target = resolve_device(device)
    on_cpu = target.type == "cpu"
    _measurers.add(threading.get_ident())
    try:
        with _measuring, _warn_about_threads() if on_cpu else nullcontext():
            for _ in range(warmup):
                with _profile() if on_cpu else nullcontext():
                    fn()
            if warmup:
                gc.collect()
            return _peak_cpu(fn, target) if on_cpu else _peak_cuda(fn, target)
    finally:
        _measurers.discard(threading.get_ident())


@contextmanager
def _warn_about_threads():
    started, previous_hook = set(), threading.getprofile()

    def record_thread(*_):
        started.add(threading.get_ident())
        sys.setprofile(previous_hook)

    threading.setprofile(record_thread)
    try:
        yield
    finally:
        threading.setprofile(previous_hook)
    if started - _measurers:
        message = "threads were started during this measurement, and what they allocate is not counted"
        warnings.warn(f"{message}; measure inside the thread, or call its work directly", RuntimeWarning, stacklevel=4)


def _profile():
    if torch.autograd.profiler._is_profiler_enabled:
        raise RuntimeError("peak_memory can't be nested or used within torch's profiler: measure one after the other")
    return torch.autograd.profiler.profile(use_device=None, profile_memory=True)


def _peak_cpu(fn, target) -> PeakMemory:
    with _profile() as profile:
        result = fn()
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    del result  # kept until here, so that it counts as held
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return PeakMemory(peak_bytes=peak, held_bytes=live, device=str(target))


def _peak_cuda(fn, target) -> PeakMemory:
    torch.cuda.synchronize(target)
    torch.cuda.reset_peak_memory_stats(target)
    baseline = torch.cuda.memory_allocated(target)
    result = fn()
    torch.cuda.synchronize(target)
    held_bytes = torch.cuda.memory_allocated(target) - baseline
    del result
    peak_bytes = torch.cuda.max_memory_allocated(target) - baseline
    return PeakMemory(peak_bytes=peak_bytes, held_bytes=held_bytes, device=str(target))
