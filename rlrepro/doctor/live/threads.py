"""Threads of processes, as Linux tells: which want a core, how long they ran, and how long they waited for one."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100  # a second


@dataclass(frozen=True)
class Thread:
    """A thread now. Seconds are since it began: on a core, and ready but without one (None where Linux keeps no such
    account, CONFIG_SCHED_INFO)."""

    pid: int
    tid: int
    runnable: bool
    ran_seconds: float
    waited_seconds: float | None


def threads(processes: list[psutil.Process]) -> list[Thread]:
    """All threads of these processes; none elsewhere than on Linux. What has just ended is left out."""
    return [
        thread
        for process in processes
        for task in _tasks(process.pid)
        if (thread := _thread(process.pid, task)) is not None
    ]


def _tasks(pid: int) -> list[Path]:
    try:
        return list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def _thread(pid: int, task: Path) -> Thread | None:
    try:
        state = (task / "stat").read_text().rpartition(")")[2].split()  # what follows the thread's name
        runnable = state[0] == "R"
        try:
            ran, waited = (int(word) / 1e9 for word in (task / "schedstat").read_text().split()[:2])
        except OSError:
            ran, waited = sum(map(int, state[11:13])) / TICKS, None  # utime and stime
        return Thread(pid, int(task.name), runnable, ran, waited)
    except (OSError, IndexError, ValueError):
        return None
