"""Threads of processes, as Linux reports them: which want a core, how long they ran, how long they waited for one."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100  # per second


@dataclass(frozen=True)
class Thread:
    """The state of a thread. Seconds are since its start: on a core, and ready but without one (None if Linux does not
    account for that: CONFIG_SCHED_INFO)."""

    pid: int
    tid: int
    runnable: bool
    ran_seconds: float
    waited_seconds: float | None

    def wanted_since(self, before: "Thread", seconds: float) -> float:
        """The share of these seconds, since an earlier sample, in which it was on a core or ready for one."""
        if self.waited_seconds is None or before.waited_seconds is None:
            return float(self.runnable)
        return (self.ran_seconds - before.ran_seconds + self.waited_seconds - before.waited_seconds) / seconds


def readable() -> bool:
    """Whether the threads of processes can be read on this system."""
    return (PROC / str(os.getpid()) / "task").is_dir()


def threads(pids: list[int]) -> list[Thread]:
    """All threads of these processes that have not ended; none on systems other than Linux."""
    return [thread for pid in pids for task in _tasks(pid) if (thread := _thread(pid, task)) is not None]


def children(pid: int) -> list[int]:
    """The descendants of a process that have not ended. Linux lists children by thread; on other systems, and in a
    kernel without CONFIG_PROC_CHILDREN, all processes are searched."""
    try:
        direct = [int(word) for task in _tasks(pid) for word in (task / "children").read_text().split()]
    except (OSError, ValueError):
        try:
            return [process.pid for process in psutil.Process(pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return []
    return [descendant for child in direct for descendant in (child, *children(child))]


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
