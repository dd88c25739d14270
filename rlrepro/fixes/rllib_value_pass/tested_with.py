"""Releases that these fixes were tested with; written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "ChunkedGAE": ("ray", "2.60.0"),
    "ChunkedPPOTorchLearner": ("ray", "2.60.0"),
    "ChunkedValuePass": ("ray", "2.60.0"),
}
