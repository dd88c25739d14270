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
    """How far a storage is written, and indexes of its trajectories.

    Writes at the head of the ring are tracked: `_time` counts the cells written, and an index reads those that it has
    not seen. After any other change, everything is read again.
    """

    def __init__(self):
        self._is_in_step = False  # every write so far was tracked
        self._time = None  # cells written; None if the storage is full and does not know where it was written last
        self._revision = self._boundaries = None
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
            self._time += len(cells)
        self._revision = revision

    def _is_at_head(self, cells, storage, revision) -> bool:
        """Whether these cells directly follow those written before, with no other write in between."""
        capacity, first, last = capacity_of(storage), int(cells[0]), int(cells[-1])
        if self._time is None or self._time % capacity != first or cell_written_last(storage) not in (last, None):
            return False
        if revision is not None and revision != self._revision + changes_of_a_write(storage, len(cells)):
            return False
        return are_in_order(cells, capacity)

    def index(
        self, storage: Storage, shortest: int, keys, find_boundaries: Callable, find_trajectories: Callable
    ) -> TrajectoryIndex:
        """The index of trajectories of at least `shortest` transitions, with everything that is written.

        `find_boundaries(storage)` returns what to read, which holds while `keys` are the same.
        `find_trajectories(storage)` returns torchrl's starts, stops and lengths; it is used if a trajectory may
        continue from the last cell to the first.
        """
        in_use, capacity = cells_in_use(storage), capacity_of(storage)
        is_current = self._is_in_step and revision_of(storage) == self._revision and self._keys == keys
        if not is_current or (self._time is not None and in_use != min(self._time, capacity)):
            self._restart(storage, in_use, capacity)
            self._boundaries, self._keys = find_boundaries(storage), keys
        index = self._indexes.pop(shortest, None)
        if self._time is None:
            index = index or closed_index(shortest, storage, *find_trajectories(storage))
        else:
            if index is None or index.time <= self._time - capacity:
                index = TrajectoryIndex(capacity, columns_of(storage), shortest, max(0, self._time - capacity))
            self._read(index, storage)
        self._indexes[shortest] = index
        if len(self._indexes) > INDEXES:
            self._indexes.popitem(last=False)
        return index

    def _restart(self, storage, in_use, capacity):
        self._indexes.clear()
        self._is_in_step, self._revision = True, revision_of(storage)
        cell = cell_written_last(storage)
        if in_use < capacity:
            self._time = in_use
        else:
            self._time = None if cell is None else capacity + cell + 1

    def _read(self, index, storage):
        """Add to the index what it has not seen."""
        at_once = max(1, READ_AT_ONCE // index.columns)
        while index.time < self._time:
            cell, before = index.time % index.capacity, max(index.begin, index.time - 1) % index.capacity
            cells = min(at_once, self._time - index.time, index.capacity - cell)
            index.append(self._boundaries.starts(storage, slice(cell, cell + cells), slice(before, before + 1)))


def closed_index(shortest: int, storage: Storage, starts, stops, lengths) -> TrajectoryIndex:
    """An index of the trajectories that torchrl returned; starts: (trajectories, dimensions)."""
    starts, lengths = starts.cpu().numpy(), lengths.cpu().numpy()
    index = TrajectoryIndex(capacity_of(storage), columns_of(storage), shortest)
    columns = np.ravel_multi_index(starts.T[1:], storage.shape[1:]) if starts.shape[1] > 1 else np.zeros_like(lengths)
    index.close(starts[:, 0] + lengths - 1, columns, lengths, cells_in_use(storage))
    return index
