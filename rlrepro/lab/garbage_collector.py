"""Pauses Python's garbage collector, which otherwise runs whenever enough objects were created."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Turn automatic collections off in this context. Objects outside reference cycles are still freed at once."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
