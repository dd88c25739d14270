"""Releases that these fixes were tested with, each in its own environment. Written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "EnsemblePPO": ("stable-baselines3", "none"),
}
