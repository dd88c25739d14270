"""The cores and memory that this process may use: of the machine, its CPU affinity, and the container's cgroup."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import psutil


def usable_cores(root: Path = Path("/")) -> int:
    """Cores by CPU affinity and by the CPU quota of the cgroup (versions 1 and 2), rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [text.split() for text in _settings(root, "cpu", "cpu.max")]
    v1 = [_settings(root, "cpu", f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    quotas += [list(pair) for pair in zip(*v1, strict=False)]
    limits = [int(quota) / int(period) for quota, period in quotas if quota.isdecimal()]  # "max" or -1 is no limit
    return max(1, math.ceil(min([cores, *limits])))


def usable_memory(root: Path = Path("/")) -> int:
    """Bytes of memory, at most what the cgroup (versions 1 and 2) allows."""
    limits = [*_settings(root, "memory", "memory.max"), *_settings(root, "memory", "memory.limit_in_bytes")]
    return min([psutil.virtual_memory().total, *(int(limit) for limit in limits if limit.isdecimal())])


def _settings(root: Path, controller: str, name: str) -> Iterator[str]:
    """The contents of that file in this process's cgroup and in its parents."""
    membership = root / "proc/self/cgroup"
    for line in membership.read_text().splitlines() if membership.exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for base in {root / "sys/fs/cgroup" / part for part in ("", "unified", controllers, controller)}:
            # A container may report the host's folder, which does not exist in it, but `base` does.
            folder = base / path.lstrip("/")
            for directory in (folder, *folder.parents):
                if directory.is_relative_to(base) and (directory / name).is_file():
                    yield (directory / name).read_text().strip()
