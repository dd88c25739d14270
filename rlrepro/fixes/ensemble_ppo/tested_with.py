"""Releases that these fixes were tested with; written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "EnsemblePPO": ("stable-baselines3", "2.3.2, 2.4.1, 2.5.0, 2.6.0, 2.7.1, 2.8.0, 2.9.2"),
}
