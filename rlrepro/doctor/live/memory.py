"""The most memory that was in use since the last look: the process's by Linux, a GPU's by torch."""

import sys
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # man proc_pid_clear_refs


def peak_and_level() -> tuple[int | None, int | None, bool]:
    """(peak bytes since the last `restart`, bytes now, whether they are a GPU's); None where nobody tells."""
    if cuda := _cuda():
        return cuda.max_memory_allocated(), cuda.memory_allocated(), True
    try:
        words = STATUS.read_bytes().split()
        peak, now = (int(words[words.index(name) + 1]) * 1024 for name in (b"VmHWM:", b"VmRSS:"))
        return peak, now, False
    except (OSError, ValueError):
        return None, None, False


def restart() -> bool:
    """Begin a new peak; False where that can't be done. On a GPU this is torch's own `max_memory_allocated`, which
    whoever reads it in the program finds begun anew."""
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
