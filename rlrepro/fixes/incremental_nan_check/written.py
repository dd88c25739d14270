"""Which rows of a replay buffer were written since they were last found to be free of NaN."""

import functools
import warnings
from array import array
from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary, ref

import numpy as np
import pandas as pd
from tianshou.data import Batch, HERReplayBuffer, HERReplayBufferManager, PrioritizedReplayBuffer, ReplayBuffer

READ_AT_ONCE = 2**21  # bytes; bounds the memory of a check
# A class that overrides one of these may write or read rows that are not noted.
METHODS = ("__getitem__", "get", "sample_indices", "prev", "next", "hasnull", "add", "update", "set_array_at_key")


class Clean:
    """The state of a buffer when it was found to be free of NaN, with its arrays and number of rows, and the rows that
    have been written since, to it and to the buffers that it manages."""

    def __init__(self, buffer: ReplayBuffer):
        self.arrays = [ref(values) for values in _arrays(buffer._meta)]
        self.stored = len(buffer)
        self.parts = WeakKeyDictionary({part: (offset, array("q")) for part, offset in _parts(buffer)})

    def rows(self) -> np.ndarray:
        """The rows written since, in ascending order."""
        return np.unique(np.concatenate([np.array(rows, int) + offset for offset, rows in self.parts.values()]))

    def knows(self, buffer: ReplayBuffer, rows: np.ndarray) -> bool:
        """Whether everything that has changed since is in these rows."""
        arrays = list(_arrays(buffer._meta))
        is_same = len(arrays) == len(self.arrays) and all(
            reference() is values for reference, values in zip(self.arrays, arrays, strict=True)
        )
        return is_same and len(buffer) - self.stored <= len(rows)

    def forget(self, buffer: ReplayBuffer) -> None:
        """Everything written since was found to be free of NaN."""
        self.stored = len(buffer)
        for _, rows in self.parts.values():
            del rows[:]


class WrittenRows:
    """The rows that were written to each buffer."""

    def __init__(self):
        self._clean: WeakKeyDictionary[ReplayBuffer, Clean] = WeakKeyDictionary()
        self._managers = WeakKeyDictionary()  # of each buffer whose rows are noted: itself, or the one that manages it

    def note(self, buffer: ReplayBuffer, rows) -> None:
        """Note that these rows were written. Does nothing until a whole buffer was found to be free of NaN."""
        manager = self._managers.get(buffer, lambda: None)()
        if manager is None or manager not in self._clean:
            return
        _, noted_rows = self._clean[manager].parts[buffer]
        noted_rows.frombytes(np.atleast_1d(rows).astype("q").tobytes())
        if len(noted_rows) > buffer.maxsize:  # this buffer is no longer checked
            del self._clean[manager]

    def hasnull(self, buffer: ReplayBuffer, check_all: Callable[[ReplayBuffer], bool]) -> bool:
        """The result of `check_all(buffer)`, which is called only if the rows just written don't decide it."""
        if not _is_understood(buffer):
            return check_all(buffer)
        clean = self._clean.get(buffer)
        if clean is not None and clean.knows(buffer, rows := clean.rows()) and not _may_have_null(buffer, rows):
            clean.forget(buffer)
            return False
        self._clean.pop(buffer, None)
        if check_all(buffer):
            return True
        self._clean[buffer] = Clean(buffer)
        for part in self._clean[buffer].parts:
            self._managers[part] = ref(buffer)
        return False


def _may_have_null(buffer: ReplayBuffer, rows: np.ndarray) -> bool:
    """Whether one of these rows, or a priority, is null; this may be a row that the buffer does not return."""
    if isinstance(buffer, PrioritizedReplayBuffer) and not np.isfinite(buffer.weight.reduce()):  # their sum
        return True
    return any(_has_null(values, rows) for values in _arrays(buffer._meta))


def _has_null(values, rows: np.ndarray) -> bool:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biu":
        return False
    at_once = max(1, READ_AT_ONCE // max(1, values[:1].nbytes))
    return any(np.any(pd.isnull(values[rows[start : start + at_once]])) for start in range(0, len(rows), at_once))


def _arrays(batch: Batch) -> Iterator:
    """The arrays and tensors of a Batch and of those in it."""
    for value in batch.values():
        yield from _arrays(value) if isinstance(value, Batch) else (value,)


def _parts(buffer: ReplayBuffer) -> list[tuple[ReplayBuffer, int]]:
    """The buffer itself, and the buffers that it manages with the row at which each begins."""
    managed = zip(buffer.buffers, buffer._offset, strict=True) if "buffers" in vars(buffer) else ()
    return [(buffer, 0), *managed]


def _is_understood(buffer: ReplayBuffer) -> bool:
    if buffer.stack_num > 1 and buffer._sample_avail:
        _warn(f"{type(buffer).__name__} with sample_avail")
        return False
    return all(_is_known(type(part)) for part, _ in _parts(buffer))


@functools.cache
def _is_known(cls: type) -> bool:
    overridden = [name for name in METHODS if not getattr(cls, name).__module__.startswith("tianshou.data.buffer.")]
    if not overridden and not issubclass(cls, HERReplayBuffer | HERReplayBufferManager):
        return True
    _warn(f"{cls.__name__}, which has its own {', '.join(overridden)}" if overridden else cls.__name__)
    return False


def _warn(kind: str) -> None:
    warnings.warn(f"incremental_nan_check: every check reads all of a {kind}, as without the fix", stacklevel=2)
