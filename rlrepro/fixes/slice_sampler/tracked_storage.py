"""Where the trajectories of a torchrl storage lie, tracked write by write."""

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import torch

from .torchrl_compat import (
    Storage,
    are_in_order,
    capacity_of,
    cell_written_last,
    cells_in_use,
    cells_of,
    changes_of_a_write,
    columns_of,
    revision_of,
)
from .trajectory_index import TrajectoryIndex

READ_AT_ONCE = 2**22  # flags or ids; bounds the memory that reading everything takes
INDEXES = 4  # kept at a time, one per shortest length


class TrackedStorage:
    """How far a storage has been written, and indexes of its trajectories.

    Writes at the head of the ring are tracked: `time` counts the cells written, and an index reads those that it has
    not seen. After any other change, everything is read again.
    """

    def __init__(self):
        self._is_in_step = False  # every write so far was tracked
        self.restarts = 0  # how often everything was read again
        self.time = None  # cells written; None if the storage is full and does not know where it was written last
        self._revision = self.boundaries = None
        self._indexes: OrderedDict[int, TrajectoryIndex] = OrderedDict()

    @property
    def nbytes(self) -> int:
        return sum(index.nbytes for index in self._indexes.values())

    def note_write(self, index: int | torch.Tensor, storage: Storage) -> None:
        """Note that these transitions have been written."""
        revision, cells = revision_of(storage), cells_of(index, storage)
        if not len(cells) or (revision is not None and revision == self._revision):
            return  # nothing was written, or it was noted before
        self._is_in_step = self._is_in_step and self._is_at_head(cells, storage, revision)
        if self._is_in_step:
            self.time += len(cells)
        self._revision = revision

    def _is_at_head(self, cells, storage, revision) -> bool:
        """Whether these cells directly follow those written before, with no other write in between."""
        capacity, first, last = capacity_of(storage), int(cells[0]), int(cells[-1])
        if self.time is None or self.time % capacity != first or cell_written_last(storage) not in (last, None):
            return False
        if revision is not None and revision != self._revision + changes_of_a_write(storage, len(cells)):
            return False
        return are_in_order(cells, capacity)

    def index(
        self, storage: Storage, shortest: int, keys, find_boundaries: Callable, find_trajectories: Callable
    ) -> TrajectoryIndex:
        """The index of trajectories of at least `shortest` transitions, with everything that is written.

        `find_boundaries(storage)` returns which entries to read; this is valid as long as `keys` are the same.
        `find_trajectories(storage)` returns torchrl's starts, stops and lengths; it is used if a trajectory may
        continue from the last cell to the first.
        """
        self.refresh(storage, keys, find_boundaries)
        capacity = capacity_of(storage)
        index = self._indexes.pop(shortest, None)
        if self.time is None:
            index = index or closed_index(shortest, storage, *find_trajectories(storage))
        else:
            if index is None or index.time <= self.time - capacity:
                index = TrajectoryIndex(capacity, columns_of(storage), shortest, max(0, self.time - capacity))
            self._read(index, storage)
        self._indexes[shortest] = index
        if len(self._indexes) > INDEXES:
            self._indexes.popitem(last=False)
        return index

    def refresh(self, storage: Storage, keys, find_boundaries: Callable) -> None:
        """Start again after any change other than writes at the head of the ring."""
        in_use, capacity = cells_in_use(storage), capacity_of(storage)
        is_current = self._is_in_step and revision_of(storage) == self._revision and self._keys == keys
        if not is_current or (self.time is not None and in_use != min(self.time, capacity)):
            self.boundaries, self._keys = find_boundaries(storage), keys
            self._restart(storage, in_use, capacity)

    def starts(self, storage: Storage, begin: int, end: int) -> np.ndarray:
        """Whether a trajectory starts at these times, none of them overwritten: (times, columns)."""
        capacity, oldest = capacity_of(storage), max(0, self.time - capacity_of(storage))
        parts = []
        while begin < end:
            cell, before = begin % capacity, max(oldest, begin - 1) % capacity
            cells = min(end - begin, capacity - cell)
            parts.append(self.boundaries.starts(storage, slice(cell, cell + cells), slice(before, before + 1)))
            begin += cells
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, columns_of(storage)), dtype=bool), *parts])

    def _restart(self, storage, in_use, capacity):
        self._indexes.clear()
        self.restarts += 1
        self._is_in_step, self._revision = True, revision_of(storage)
        cell = cell_written_last(storage)
        if in_use < capacity:
            self.time = in_use
        else:
            self.time = None if cell is None else capacity + cell + 1

    def _read(self, index, storage):
        """Add to the index the cells that it has not read."""
        at_once = max(1, READ_AT_ONCE // index.columns)
        while index.time < self.time:
            index.append(self.starts(storage, index.time, min(index.time + at_once, self.time)))


def closed_index(shortest: int, storage: Storage, starts, stops, lengths) -> TrajectoryIndex:
    """An index of the trajectories that torchrl returned; starts: (trajectories, dimensions)."""
    starts, lengths = starts.cpu().numpy(), lengths.cpu().numpy()
    index = TrajectoryIndex(capacity_of(storage), columns_of(storage), shortest)
    columns = np.ravel_multi_index(starts.T[1:], storage.shape[1:]) if starts.shape[1] > 1 else np.zeros_like(lengths)
    index.close(starts[:, 0], columns, lengths, cells_in_use(storage))
    return index
