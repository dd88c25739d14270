"""A short import path for in_chunks; its code is in `tianshou/chunks.py`, beside the classes that use it."""

from .tianshou.chunks import in_chunks

__all__ = ["in_chunks"]
