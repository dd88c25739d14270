"""EnsemblePPO reuses the memory that the last gradient step freed."""

import platform
import subprocess
import sys

import pytest

STEPS = 20
UPDATE = f"""
import resource
from statistics import median
import torch
from rlrepro.fixes import EnsemblePPO

torch.set_num_threads(1)
sizes = dict(n_steps=64, batch_size=64, n_epochs={STEPS})
ensemble = EnsemblePPO("Pendulum-v1", seeds=range(64), vectorization="sync", **sizes)
rollout = ensemble.collect()
counts = []
for _ in range(15):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    ensemble.update(rollout)
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(median(counts))  # in a few updates, the heap still grows by a block
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not GNU's")
def test_a_gradient_step_takes_no_new_pages():
    """It runs in a separate process: in this one, other code may have freed a large block before."""
    completed = subprocess.run([sys.executable, "-c", UPDATE], capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    assert float(completed.stdout) < STEPS  # a single layer has activations of 256 pages
