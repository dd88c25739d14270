"""in_chunks, under its short name; the code lies in `tianshou/chunks.py`, beside the classes that need it."""

from .tianshou.chunks import in_chunks

__all__ = ["in_chunks"]
