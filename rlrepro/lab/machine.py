"""The machine, and the device that a measurement runs on."""

import os
import platform
import re
from functools import cache
from importlib import metadata
from pathlib import Path

import psutil
from packaging.requirements import Requirement
from pydantic import BaseModel, ConfigDict

from rlrepro.metadata import requirements


class NoGPUError(RuntimeError):
    """A CUDA device was requested, but torch sees none."""


class Machine(BaseModel):
    """The machine as stored in every record. Runs with the same `name` come from the same kind of machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    cpu: str
    cores: int  # usable by this process
    memory_bytes: int
    gpu: str | None
    gpu_memory_bytes: int | None
    cuda: str | None
    driver: str | None
    threads: int  # of torch
    python: str
    system: str
    versions: dict[str, str]


def resolve_device(device: str = "auto"):
    """The torch.device for "auto" (CUDA if available), "cpu", "cuda" or "cuda:N".

    Raises ValueError for anything else, and NoGPUError if CUDA is requested but torch sees no GPU.
    """
    import torch

    device = str(device)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f"unknown device {device!r}; expected 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if device.startswith("cuda") and not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
        raise NoGPUError(
            f"device {device!r} was requested, but torch sees no GPU here (torch {torch.__version__}, {built}). "
            "Use device 'cpu' or 'auto', or check the driver with nvidia-smi."
        )
    return torch.device(device)


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (model := re.search(r"model name\s*: (.+)", cpuinfo.read_text())):
        return model[1].strip()
    return platform.processor() or platform.machine()


def _driver() -> str | None:
    version = Path("/proc/driver/nvidia/version")
    return _driver_in(version.read_text()) if version.exists() else None


def _driver_in(text: str) -> str | None:
    """The version of NVIDIA's kernel module, closed or open ("... Open Kernel Module for x86_64  580.159.04 ...")."""
    version = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)", text)
    return version[1] if version else None


def _versions() -> dict[str, str]:
    """The installed versions of the packages that rlrepro requires."""
    versions = {}
    for text in requirements():
        name = Requirement(text).name
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@cache
def this_machine() -> Machine:
    """This machine, with its torch and the versions of the installed packages."""
    import torch

    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory_bytes = psutil.virtual_memory().total
    cpu = _cpu_name()
    name = f"{gpu.name if gpu else cpu}-{cores}-cores-{round(memory_bytes / 2**30)}-gib"
    return Machine(
        name=re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        cpu=cpu,
        cores=cores,
        memory_bytes=memory_bytes,
        gpu=gpu.name if gpu else None,
        gpu_memory_bytes=gpu.total_memory if gpu else None,
        cuda=torch.version.cuda if gpu else None,
        driver=_driver() if gpu else None,
        threads=torch.get_num_threads(),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        versions=_versions() | {"torch": torch.__version__},
    )
