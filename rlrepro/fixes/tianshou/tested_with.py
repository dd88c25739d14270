"""Releases that these fixes were tested with; written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "ChunkedPPO": ("tianshou", "2.0.0, 2.0.1"),
    "ChunkedPPOPolicy": ("tianshou", "0.5.1, 1.0.0, 1.1.0, 1.2.0"),
    "in_chunks": ("torch", "2.0.1, 2.2.2, 2.4.1, 2.7.1, 2.9.1, 2.13.0"),
}
