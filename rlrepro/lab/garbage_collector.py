"""Limits when Python's garbage collector runs, and what it looks through."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


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


@contextmanager
def importing() -> Iterator[None]:
    """A context for a process's first imports. Collections would take up to a fifth of their time. Later ones don't
    look through what lives at the end, since modules stay."""
    with paused():
        yield
    gc.freeze()


@cache
def freeze_imports() -> None:
    """Keep collections from looking through all that lives now. Call it once a process has imported its libraries:
    with torch and an RL library, a full collection takes a quarter of a second, and `peak_memory` makes one.

    Later calls do nothing, since what lives then may become garbage.
    """
    gc.collect()
    gc.freeze()
