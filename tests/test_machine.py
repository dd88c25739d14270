"""What is said of a machine."""

import pytest

from rlrepro.lab.machine import _driver_in


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
