"""Releases that these fixes were tested with; written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "PatientParallelEnv": ("torchrl", "no release"),
    "wait_patiently": ("torchrl", "no release"),
}
