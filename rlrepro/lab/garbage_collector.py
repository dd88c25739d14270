"""Limits when Python's garbage collector runs, and what it looks through."""

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


def freeze_imports() -> None:
    """Keep collections from looking through all that lives now. Call it once a process has imported its libraries:
    with torch and an RL library, a full collection takes a quarter of a second, and `peak_memory` makes one.

    Later calls do nothing, since what lives then may become garbage.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
