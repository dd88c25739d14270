"""The description of a machine."""

from types import SimpleNamespace

import psutil
import pytest
import torch

from rlrepro.evidence import RecordBook
from rlrepro.lab import NoGPUError, resolve_device, this_machine
from rlrepro.lab.container import usable_cores, usable_memory
from rlrepro.lab.machine import _driver_in
from rlrepro.lab.processor import processor


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Sat Sep  6 07:29:14 UTC 2025",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (root@host)",
    ],
)
def test_the_driver_is_read_from_either_kind_of_kernel_module(line):
    assert _driver_in(f"{line}\nGCC version:  gcc version 13.3.0") == "580.159.04"
    assert _driver_in("something else") is None


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


GROUP = "kubepods/pod1"
V2 = {"proc/self/cgroup": f"0::/{GROUP}\n"}
V1 = {"proc/self/cgroup": f"5:memory:/{GROUP}\n4:cpu,cpuacct:/{GROUP}\n0::/\n"}


@pytest.mark.parametrize(
    "files, cores, memory",
    [
        (
            V2 | {f"sys/fs/cgroup/{GROUP}/cpu.max": "50000 100000", f"sys/fs/cgroup/{GROUP}/memory.max": "1048576"},
            1,
            2**20,
        ),
        (V2 | {"sys/fs/cgroup/cpu.max": "250000 100000", "sys/fs/cgroup/memory.max": "1048576"}, 3, 2**20),  # around it
        (V2 | {f"sys/fs/cgroup/{GROUP}/cpu.max": "max 100000", f"sys/fs/cgroup/{GROUP}/memory.max": "max"}, 8, None),
        (
            V1
            | {
                f"sys/fs/cgroup/cpu,cpuacct/{GROUP}/cpu.cfs_quota_us": "150000",
                f"sys/fs/cgroup/cpu,cpuacct/{GROUP}/cpu.cfs_period_us": "100000",
                f"sys/fs/cgroup/memory/{GROUP}/memory.limit_in_bytes": "1048576",
            },
            2,
            2**20,
        ),
        (
            V1
            | {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            8,
            None,
        ),
        ({}, 8, None),
    ],
)
def test_cores_and_memory_are_those_of_the_container(tmp_path, monkeypatch, files, cores, memory):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    write(tmp_path, files)
    assert usable_cores(tmp_path) == cores
    assert usable_memory(tmp_path) == (memory or psutil.virtual_memory().total)


def test_the_affinity_counts_too(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {1, 5})
    write(tmp_path, V2 | {"sys/fs/cgroup/cpu.max": "400000 100000"})
    assert usable_cores(tmp_path) == 2


def test_a_processor_with_a_hidden_name_is_described_by_its_numbers(tmp_path):
    core = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2596.1\n"
    write(tmp_path, {"proc/cpuinfo": f"{core}\n{core}"})
    for index, (kind, size) in enumerate([("Data", "32K"), ("Unified", "1024K")]):
        texts = {"level": str(index + 1), "type": kind, "size": size}
        folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
        write(tmp_path, {f"{folder}/{name}": f"{text}\n" for name, text in texts.items()})
    expected = {
        "cpu": "AMD EPYC",
        "cpu_model": "vendor_id AuthenticAMD, cpu family 25, model 17",
        "caches": "L1 data 32K, L2 unified 1024K",
        "clock_mhz": 2596.1,
    }
    assert processor(tmp_path) == expected


def test_a_processor_without_any_information(tmp_path):
    description = processor(tmp_path / "nothing")
    assert description["cpu"] and [description[name] for name in ("cpu_model", "caches", "clock_mhz")] == [None] * 3


@pytest.fixture
def two_gpus(monkeypatch):
    cards = [SimpleNamespace(name=f"card {index}", total_memory=index + 1) for index in range(2)]
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: cards[getattr(device, "index", device) or 0])


def test_a_record_names_the_gpu_it_was_measured_on(two_gpus, tmp_path):
    book = RecordBook(tmp_path / "x.jsonl", case="case", profile="smoke", device="cuda:1", seed=0)
    record = book.add("peak", 1, "B")
    assert (record.device, record.machine.gpu, record.machine.gpu_memory_bytes) == ("cuda:1", "card 1", 2)
    assert this_machine("cuda").gpu == this_machine("cpu").gpu == "card 0"
    with pytest.raises(NoGPUError, match="'cuda:2' was requested, but torch sees only cuda:0 to cuda:1"):
        resolve_device("cuda:2")


def test_a_record_names_the_threads_as_they_were(tmp_path):
    book = RecordBook(tmp_path / "x.jsonl", case="case", profile="smoke", device="cpu", seed=0)
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert book.add("peak", 1, "B").machine.threads == threads
    finally:
        torch.set_num_threads(before)
