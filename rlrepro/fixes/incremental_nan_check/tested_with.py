"""Releases that these fixes were tested with; written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "incremental_nan_check": ("tianshou", "2.0.0, 2.0.1"),
}
