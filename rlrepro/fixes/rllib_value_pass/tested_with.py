"""Releases that these fixes were tested with; written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "ChunkedPPOTorchLearner": ("ray", "2.60.0"),
}
