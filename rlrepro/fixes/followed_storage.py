"""A torchrl storage and where its trajectories lie, followed write by write."""

import weakref
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import torch
from torchrl.data.replay_buffers.storages import ListStorage, Storage

from rlrepro.fixes.trajectory_boundaries import Boundaries
from rlrepro.fixes.trajectory_index import TrajectoryIndex

READ_AT_ONCE = 2**22  # flags or ids; bounds the memory that reading everything takes
INDEXES = 4  # kept at a time, each for another shortest length


class FollowedStorage:
    """How far a storage is written, and an index of its trajectories.

    Writes at the head of the ring are followed: `_time` counts the rows written, and an index reads those that it has
    not seen. After any other change everything is read again.
    """

    def __init__(self, storage: Storage):
        self._storage = weakref.ref(storage)
        self._is_known = False  # whether nothing was written that was not followed
        self._time = None  # rows written; None in a full storage that does not know where it was written last
        self._revision = self._last_cell = self._boundaries = None
        self._indexes: OrderedDict[int, TrajectoryIndex] = OrderedDict()

    def is_of(self, storage: Storage) -> bool:
        return self._storage() is storage

    @property
    def nbytes(self) -> int:
        return sum(index.nbytes for index in self._indexes.values())

    def wrote(self, index: int | torch.Tensor) -> None:
        """Take note that these rows were written, after it was done."""
        storage = self._storage()
        revision = _revision(storage)
        if revision is not None and revision == self._revision:
            return  # told twice of one write
        capacity, columns = _capacity(storage), _columns(storage)
        cells = torch.as_tensor(index).reshape(-1, storage.ndim)[::columns, 0]
        first, last, is_in_order = int(cells[0]), int(cells[-1]), _is_in_order(cells, capacity)
        told = (len(cells) if isinstance(storage, ListStorage) else 1) + (self._revision or 0)
        self._is_known = (
            self._is_known
            and is_in_order
            and self._time is not None
            and self._time % capacity == first
            and revision in (told, None)
            and _last_cell(storage) in (last, None)
        )
        if self._is_known:
            self._time += len(cells)
        if is_in_order and self._last_cell in (None, (first - 1) % capacity):
            self._last_cell = last
        self._revision = revision

    def index(
        self, shortest: int, find_boundaries: Callable[[Storage], Boundaries], find_trajectories: Callable
    ) -> TrajectoryIndex:
        """The index of trajectories of at least `shortest` rows, with all that is written.

        `find_trajectories(storage)` gives torchrl's starts, stops and lengths; it is used where a trajectory may go on
        from the last cell to the first.
        """
        storage = self._storage()
        rows, capacity, columns = _rows(storage), _capacity(storage), _columns(storage)
        is_same = self._is_known and _revision(storage) == self._revision
        if not is_same or (self._time is not None and rows != min(self._time, capacity)):
            self._start_again(storage, rows, capacity)
            self._boundaries = find_boundaries(storage)
        index = self._indexes.pop(shortest, None)
        if self._time is None:
            index = index or closed_index(shortest, storage, *find_trajectories(storage))
        else:
            if index is None or index.time <= self._time - capacity:
                index = TrajectoryIndex(capacity, columns, shortest, max(0, self._time - capacity))
            _read(storage, self._boundaries, index, self._time)
        self._indexes[shortest] = index
        if len(self._indexes) > INDEXES:
            self._indexes.popitem(last=False)
        return index

    def _start_again(self, storage, rows, capacity):
        self._indexes.clear()
        self._is_known, self._revision = True, _revision(storage)
        cell = _last_cell(storage)
        if rows < capacity:
            self._time = rows
        elif (cell := self._last_cell if cell is None else cell) is not None:
            self._time = capacity + cell + 1
        else:
            self._time = None


def closed_index(shortest: int, storage: Storage, starts, stops, lengths) -> TrajectoryIndex:
    """An index of trajectories as torchrl describes them; starts: (trajectories, dimensions)."""
    starts, lengths = starts.cpu().numpy(), lengths.cpu().numpy()
    index = TrajectoryIndex(_capacity(storage), _columns(storage), shortest)
    columns = np.ravel_multi_index(starts.T[1:], storage.shape[1:]) if starts.shape[1] > 1 else np.zeros_like(lengths)
    index.close(starts[:, 0] + lengths - 1, columns, lengths, _rows(storage))
    return index


def _read(storage, boundaries, index, time):
    """Let the index take in the rows up to `time`."""
    at_once = max(1, READ_AT_ONCE // index.columns)
    while index.time < time:
        cell, before = index.time % index.capacity, max(index.begin, index.time - 1) % index.capacity
        rows = min(at_once, time - index.time, index.capacity - cell)
        index.append(boundaries.starts(storage, slice(cell, cell + rows), slice(before, before + 1)))


def _is_in_order(cells, capacity) -> bool:
    """Whether each is the one after, round the ring."""
    chunks = enumerate(cells.split(READ_AT_ONCE))
    first = int(cells[0])
    return all(
        torch.equal(chunk, (torch.arange(len(chunk), device=chunk.device) + first + at * READ_AT_ONCE) % capacity)
        for at, chunk in chunks
    )


def _capacity(storage) -> int:
    return storage.max_size if storage.ndim == 1 else storage._max_size_along_dim0()


def _columns(storage) -> int:
    return 1 if storage.ndim == 1 else storage.shape[1:].numel()


def _rows(storage) -> int:
    return len(storage) if storage.ndim == 1 else storage.shape[0]


def _revision(storage) -> int | None:
    """A number that grows with each change of the storage; torchrl has it from 0.14 on."""
    return getattr(storage, "_mutation_revision", None)


def _last_cell(storage) -> int | None:
    """The cell that the storage says was written last."""
    if hasattr(storage, "_last_cursor_index"):
        return storage._last_cursor_index
    cursor = getattr(storage, "_last_cursor", None)
    if cursor is None or isinstance(cursor, int):
        return cursor
    return int(cursor[-1]) if len(cursor) else None
