"""Whether a thread spins: its next instruction, when it is stopped for a moment, lies in the library that makes threads
wait (GNU's, LLVM's or Intel's OpenMP), which computes nothing itself.

Stopping is Linux's ptrace, as in a debugger. Where that is not allowed, nobody knows. Whoever looks must not wait for
the process as its parent does, since the same call tells of stops and of ends.
"""

import ctypes
import os
import platform
import re
import time
from functools import cache
from pathlib import Path

WAITING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-xp .*/(?:libgomp|libiomp|libomp)[^/]*$", re.MULTILINE)
SEIZE, INTERRUPT, GETREGSET, DETACH = 0x4206, 0x4207, 0x4204, 17
GENERAL_REGISTERS = 1
INSTRUCTION_POINTER = {"x86_64": 16, "aarch64": 32}  # its place among them, in words of 8 bytes
STOPPED_BY_US = 128  # PTRACE_EVENT_STOP
ANY_THREAD = 0x40000000  # __WALL
SET_TRACER = 0x59616D61  # PR_SET_PTRACER, of the Yama security module
PATIENCE, POLL = 0.05, 0.0002  # seconds for a thread to stop, and between looks at whether it has


class _Area(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_late = set()  # threads that had not stopped in time; they are let go when they do


def spins(pid: int, tid: int) -> bool | None:
    """Whether this thread of this process waits in a loop at this moment; None where that can't be found out."""
    for late in tuple(_late):
        _stopped(late, 0)
    areas = _areas(pid)
    if areas is None:
        return None
    pointer = _instruction_pointer(tid) if areas else 0
    return None if pointer is None else any(first <= pointer < last for first, last in areas)


def allow(tracer: int) -> None:
    """Let that process stop this one's threads, where the system asks for leave; 0 takes it back."""
    if platform.system() == "Linux":
        ctypes.CDLL(None).prctl(SET_TRACER, ctypes.c_ulong(tracer), 0, 0, 0)


def _areas(pid: int) -> list[tuple[int, int]] | None:
    """Where such libraries lie in a process's memory."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return None
    return [(int(first, 16), int(last, 16)) for first, last in WAITING.findall(maps)]


def _instruction_pointer(tid: int) -> int | None:
    place, ptrace = INSTRUCTION_POINTER.get(platform.machine()), _ptrace()
    if place is None or ptrace is None or tid in _late or ptrace(SEIZE, tid, None, None) != 0:
        return None
    ptrace(INTERRUPT, tid, None, None)
    return _stopped(tid, PATIENCE, place)


def _stopped(tid: int, patience: float, place: int | None = None) -> int | None:
    """Wait so long for a thread to stop, read what is at a place of its registers, and let it go on."""
    _late.add(tid)
    limit = time.monotonic() + patience
    try:
        while not (found := os.waitpid(tid, ANY_THREAD | os.WNOHANG))[0]:
            if time.monotonic() >= limit:
                return None
            time.sleep(POLL)
    except ChildProcessError:  # it has ended
        found = (tid, 0)
    _late.discard(tid)
    status = found[1]
    if not os.WIFSTOPPED(status):
        return None
    pointer = _register(tid, place) if place is not None else None
    signal = 0 if status >> 16 == STOPPED_BY_US else os.WSTOPSIG(status)  # one that has come meanwhile is handed on
    _ptrace()(DETACH, tid, None, ctypes.c_void_p(signal))
    return pointer


def _register(tid: int, place: int) -> int | None:
    registers = (ctypes.c_uint64 * 64)()
    area = _Area(ctypes.cast(registers, ctypes.c_void_p), ctypes.sizeof(registers))
    failed = _ptrace()(GETREGSET, tid, ctypes.c_void_p(GENERAL_REGISTERS), ctypes.byref(area))
    return None if failed else registers[place]


@cache
def _ptrace():
    if platform.system() != "Linux":
        return None
    function = ctypes.CDLL(None, use_errno=True).ptrace
    function.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    function.restype = ctypes.c_long
    return function
