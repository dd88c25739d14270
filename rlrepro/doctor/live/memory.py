"""The peak of the memory in use since the last reading: of the process from Linux, of a GPU from torch."""

import sys
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # man proc_pid_clear_refs


def peak_and_level() -> tuple[int | None, int | None, bool]:
    """(peak bytes since the last `reset_peak`, current bytes, whether they are a GPU's); None where unknown."""
    if cuda := _cuda():
        return cuda.max_memory_allocated(), cuda.memory_allocated(), True
    try:
        words = STATUS.read_bytes().split()
        peak, current = (int(words[words.index(name) + 1]) * 1024 for name in (b"VmHWM:", b"VmRSS:"))
        return peak, current, False
    except (OSError, ValueError):
        return None, None, False


def reset_peak() -> bool:
    """Start a new peak; False where that is not possible. On a GPU, this resets torch's own `max_memory_allocated`,
    also for the program that is watched."""
    if cuda := _cuda():
        cuda.reset_peak_memory_stats()
        return True
    try:
        CLEAR.write_text(RESET_PEAK)
    except OSError:
        return False
    return True


def _cuda():
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None
