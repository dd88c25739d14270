"""Releases that these fixes were tested with, each in its own environment. Written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "FactoredDQN": ("torchrl", "none"),
    "FactoredQ": ("torch", "none"),
    "FactoredSAC": ("torchrl", "none"),
    "SharedActionBuffer": ("torchrl", "none"),
    "expected_minimum": ("torch", "none"),
}
