"""Releases that these fixes were tested with, each in its own environment. Written by `rlrepro matrix --write`."""

TESTED_WITH = {  # fix: library, releases
    "ChunkedGAIL": ("tianshou", "none"),
    "ChunkedICMOnPolicyWrapper": ("tianshou", "none"),
    "ChunkedPPO": ("tianshou", "none"),
    "ChunkedPPOPolicy": ("tianshou", "none"),
    "in_chunks": ("torch", "none"),
}
