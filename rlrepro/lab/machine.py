"""The machine, and the device that a measurement runs on."""

import platform
import re
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from pydantic import BaseModel, ConfigDict

from rlrepro.lab.container import usable_cores, usable_memory
from rlrepro.lab.processor import processor
from rlrepro.metadata import requirements


class NoGPUError(RuntimeError):
    """A CUDA device was requested, but torch sees none."""


class Machine(BaseModel):
    """The machine as stored in every record. Runs with the same `name` come from the same kind of machine. Fields
    with a default are missing in older records."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    cpu: str
    cpu_model: str | None = None
    caches: str | None = None
    clock_mhz: float | None = None
    cores: int  # usable by this process
    memory_bytes: int  # the same
    gpu: str | None  # that of the record's device
    gpu_memory_bytes: int | None
    cuda: str | None
    driver: str | None
    threads: int  # of torch, when the record was made
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
        build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
        raise NoGPUError(
            f"device {device!r} was requested, but torch sees no GPU here (torch {torch.__version__}, {build}). "
            "Use device 'cpu' or 'auto', or check the driver with nvidia-smi."
        )
    gpu_count = torch.cuda.device_count() if device.startswith("cuda") else 0
    if device.startswith("cuda:") and int(device[5:]) >= gpu_count:
        raise NoGPUError(f"device {device!r} was requested, but torch sees only cuda:0 to cuda:{gpu_count - 1}")
    return torch.device(device)


def _driver() -> str | None:
    version = Path("/proc/driver/nvidia/version")
    return _driver_in(version.read_text()) if version.exists() else None


def _driver_in(text: str) -> str | None:
    """The version of NVIDIA's kernel module, closed or open ("... Open Kernel Module for x86_64  580.159.04 ...")."""
    version = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)", text)
    return version[1] if version else None


@cache
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


def this_machine(device: str = "auto") -> Machine:
    """This machine as it is now, with the GPU that `device` names, its torch, and the versions of the installed
    packages. For "cpu", the GPU is the first."""
    import torch

    gpu = None
    if torch.cuda.is_available():
        target = resolve_device(device)
        gpu = torch.cuda.get_device_properties(target if target.type == "cuda" else 0)
    cores, memory_bytes, cpu = usable_cores(), usable_memory(), processor()
    name = f"{gpu.name if gpu else cpu['cpu']}-{cores}-cores-{round(memory_bytes / 2**30)}-gib"
    return Machine(
        name=re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
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
        **cpu,
    )
