"""Releases that this fix was tested with, by its own tests."""

TESTED_WITH = {"incremental_nan_check": ("tianshou", "2.0.0, 2.0.1")}  # fix: library, releases
