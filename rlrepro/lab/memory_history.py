"""MemoryHistory: which line of code allocated the memory that is live."""

import linecache
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

from rlrepro.lab.machine import resolve_device
from rlrepro.lab.storage_tracker import StorageCount

BEFORE, ELSEWHERE = "before", "elsewhere"  # blocks from before the measurement, and from other code
FREED, ALLOCATED = "free_completed", "alloc"  # actions in the caching allocator's record


class MemoryHistory:
    """A context manager that records every block of memory that is allocated or freed, with its line of code.

    A block belongs to the outermost line of code in a folder with one of the names in `within`, such as a package's:
    "file.py:12  x = f(y)". A single name needs no list. On CUDA, the record is the caching allocator's own, from
    torch's snapshot; a recording that was already active ends with it. On a CPU, it has the storages of live tensors,
    as VirtualCard counts them. Entered again, it records anew.

    Raises NoGPUError if CUDA is requested but not available, and RuntimeError if it is entered while it records.
    """

    def __init__(self, within: str | Iterable[str], *, device: str = "auto"):
        self.device = resolve_device(device)
        self._within = frozenset([within] if isinstance(within, str) else within)
        self._recorder, self._events = None, []

    def __enter__(self):
        if self._recorder is not None:
            raise RuntimeError("this history is recording already; create another MemoryHistory to nest them")
        recorder = (_OnCuda if self.device.type == "cuda" else _OnCpu)(self._within, self.device)
        recorder.__enter__()
        self._recorder, self._events = recorder, recorder.events
        return self

    def __exit__(self, *raised):
        recorder, self._recorder = self._recorder, None
        return recorder.__exit__(*raised)

    @property
    def events(self) -> list[tuple[str, int]]:
        """(line, change in bytes) for each event, in order."""
        return self._events

    def live_by_line(self) -> dict[str, np.ndarray]:
        """For each line, in order of its first event, the live bytes after each event, an array of shape (events,)."""
        live = {line: np.zeros(len(self.events), np.int64) for line, _ in self.events}
        for index, (line, change) in enumerate(self.events):
            live[line][index] = change
        return {line: changes.cumsum() for line, changes in live.items()}


class _OnCpu(StorageCount):
    def __init__(self, within, device):
        super().__init__(None, device)
        self.events, self._within, self._lines, self._has_ended = [], within, {}, False

    def changed(self, address, delta, created):
        if self._has_ended:
            return
        if address not in self._lines:
            self._lines[address] = _line(_stack(), self._within) if created else BEFORE
        self.events.append((self._lines[address], delta))
        if address not in self._counted:  # freed
            del self._lines[address]

    def __exit__(self, *raised):
        self._has_ended = True
        return super().__exit__(*raised)


class _OnCuda:
    def __init__(self, within, device):
        self.events, self._within, self._device = [], within, device

    def __enter__(self):
        self.events.append((BEFORE, torch.cuda.memory_allocated(self._device)))
        options = {"context": "alloc", "stacks": "python", "clear_history": True}
        torch.cuda.memory._record_memory_history(**options, device=self._device)

    def __exit__(self, *raised):
        index = torch.cuda.current_device() if self._device.index is None else self._device.index
        trace = torch.cuda.memory._snapshot(self._device)["device_traces"][index]
        torch.cuda.memory._record_memory_history(enabled=None, device=self._device)
        self.events += events_of(trace, self._within)


def events_of(trace: Iterable[dict], within: frozenset[str]) -> Iterator[tuple[str, int]]:
    """The events in a caching allocator's record: one device's "device_traces" of torch's snapshot."""
    lines = {}
    for entry in trace:
        if entry["action"] == ALLOCATED:
            lines[entry["addr"]] = _line(((frame["filename"], frame["line"]) for frame in entry["frames"]), within)
            yield lines[entry["addr"]], entry["size"]
        elif entry["action"] == FREED:
            yield lines.pop(entry["addr"], BEFORE), -entry["size"]


def _stack() -> Iterator[tuple[str, int]]:
    frame = sys._getframe(1)
    while frame:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _line(frames: Iterable[tuple[str, int]], within: frozenset[str]) -> str:
    """The line of the outermost frame in such a folder; frames are given innermost first."""
    inside = [frame for frame in frames if not within.isdisjoint(Path(frame[0]).parts[:-1])]
    if not inside:
        return ELSEWHERE
    filename, number = inside[-1]
    return f"{Path(filename).name}:{number}  {linecache.getline(filename, number).strip()}"
