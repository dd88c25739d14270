"""peak_memory(fn): how much memory a call needs at its worst moment."""

import gc
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

# torch's profiler otherwise writes lines to stderr each time it is used.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch

from rlrepro.lab.machine import resolve_device
from rlrepro.lab.units import format_value


@dataclass(frozen=True)
class PeakMemory:
    """What one call needed, in bytes above the level at its entry."""

    peak_bytes: int  # the most that was live at once
    held_bytes: int  # still live after the call, its result included
    device: str

    def __str__(self) -> str:
        return f"peak {format_value(self.peak_bytes, 'B')}, held {format_value(self.held_bytes, 'B')} ({self.device})"


def peak_memory(fn: Callable[[], object], *, device: str = "auto", warmup: int = 1) -> PeakMemory:
    """Measure the peak of live bytes during `fn()`, above the level at entry.

    On CPU the figure is the allocator's own account, read from torch's profiler: every allocation of the calling
    thread, the temporaries of operators included, and the same number on each run. On CUDA it is the caching
    allocator's `max_memory_allocated`. Memory that torch does not allocate (NumPy arrays) is not in it.

    `fn` is called `warmup` times beforehand, since a first call may build caches that stay; those results are freed
    before the measured call. On CPU torch tells the end of a block only if it saw its beginning, so what `fn` frees
    that was allocated before the warm-up, or by another thread, is not taken off.

    What `fn` raises passes through. Raises NoGPUError where CUDA is asked for in vain, and RuntimeError within another
    measurement, which torch's profiler can't do.
    """
    target = resolve_device(device)
    on_cpu = target.type == "cpu"
    for _ in range(warmup):
        with _profile() if on_cpu else nullcontext():
            fn()
    if warmup:
        gc.collect()
    return _peak_cpu(fn, target) if on_cpu else _peak_cuda(fn, target)


def _profile():
    if torch.autograd.profiler._is_profiler_enabled:
        raise RuntimeError("peak_memory can't be used within another one, or within torch's profiler: measure in turn")
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
    at_entry = torch.cuda.memory_allocated(target)
    result = fn()
    torch.cuda.synchronize(target)
    held = torch.cuda.memory_allocated(target) - at_entry
    del result
    peak = torch.cuda.max_memory_allocated(target) - at_entry
    return PeakMemory(peak_bytes=peak, held_bytes=held, device=str(target))
