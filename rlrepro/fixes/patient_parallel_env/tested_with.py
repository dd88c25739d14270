"""Releases that these fixes were tested with; written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "PatientParallelEnv": ("torchrl", "0.7.2, 0.10.1, 0.12.0, 0.13.3, 0.14.1"),
    "wait_patiently": ("torchrl", "0.7.2, 0.10.1, 0.12.0, 0.13.3, 0.14.1"),
}
