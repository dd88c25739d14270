"""Where trajectories lie in a ring buffer, kept up to date row by row."""

import numpy as np

GROWTH = 1.25  # of the arrays: at most 16 x 1.25 bytes a trajectory


class TrajectoryIndex:
    """The trajectories of at least `shortest` rows in a ring of `capacity` rows and `columns` (what is written side by
    side: environments).

    Rows are counted by time: 0, 1, 2, ... as they are written, without going round; row `t` lies in cell
    `t % capacity`, and the oldest one left is `oldest`. A trajectory that has ended is kept as two whole numbers, its
    last row and its length. Both what is written and what is overwritten go in order of time, so the trajectories lie
    in a queue: a write takes time in proportion to the rows written, whatever is stored.

    A trajectory whose first rows are overwritten is shorter than its length says; where the queue begins and how long
    a trajectory is are therefore worked out from `oldest` when they are asked for.
    """

    def __init__(self, capacity: int, columns: int, shortest: int, time: int = 0):
        self.capacity, self.columns, self.shortest = capacity, columns, max(1, shortest)
        self.begin = self.time = time  # the first row, and the one after the last
        self._opened = np.full(columns, time)  # the first row of the trajectory that each column is in
        self._queue = np.empty((2, 0), dtype=np.int64)  # last row * columns + column, and length
        self._first = self._last = 0  # of the queue: the part in use
        self._count = 0

    @property
    def oldest(self) -> int:
        """The time of the oldest row that is not overwritten."""
        return max(self.begin, self.time - self.capacity)

    def append(self, starts: np.ndarray) -> None:
        """Take in rows; `starts`: (rows, columns), whether a trajectory starts there."""
        times, columns = np.nonzero(starts)
        if len(times):
            times = times + self.time
            order = np.argsort(columns, kind="stable")  # column by column, each in order of time
            time, column = times[order], columns[order]
            is_first = np.concatenate([[True], column[1:] != column[:-1]])
            before = np.concatenate([[0], time[:-1]])  # where the trajectory that ends here started
            before[is_first] = self._opened[column[is_first]]
            is_last = np.concatenate([is_first[1:], [True]])
            self._opened[column[is_last]] = time[is_last]
            lengths = np.empty_like(time)
            lengths[order] = time - before
            self._push(times - 1, columns, lengths)
        self.time += len(starts)
        self._update_ends()

    def close(self, last: np.ndarray, columns: np.ndarray, lengths: np.ndarray, time: int) -> None:
        """Take in whole trajectories that end at these times, in any order, and stop there: no column is in one at
        `time`."""
        order = np.argsort(last, kind="stable")
        self._push(last[order], columns[order], lengths[order])
        self.time = time
        self._opened[:] = time
        self._count = self._last - self._first

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes that the index holds."""
        return self._queue.nbytes + self._opened.nbytes

    @property
    def lengths(self) -> np.ndarray:
        """Rows of each trajectory."""
        return self.at(np.arange(len(self)))[2]

    def at(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First row (time), column and length of these trajectories, numbered from 0 in the order in which they
        ended, with those that have not at the end."""
        ends, lengths = self._queue[:, self._first + which]
        last, columns = np.divmod(ends, self.columns)
        starts = np.maximum(last - lengths + 1, self.oldest)
        return starts, columns, last - starts + 1

    def _push(self, last, columns, lengths):
        is_long = lengths >= self.shortest
        count = np.count_nonzero(is_long)
        self._write((last * self.columns + columns)[is_long], lengths[is_long])
        self._last += count

    def _write(self, ends, lengths):
        """Write behind the queue, in a longer array where this one is full."""
        if self._last + len(ends) > self._queue.shape[1]:
            live = self._queue[:, self._first : self._last]
            self._queue = np.empty((2, int((live.shape[1] + len(ends)) * GROWTH) + 1), dtype=np.int64)
            self._queue[:, : live.shape[1]] = live
            self._first, self._last = 0, live.shape[1]
        self._queue[:, self._last : self._last + len(ends)] = ends, lengths

    def _update_ends(self):
        """Drop what is overwritten, or too short for what is overwritten of it, and write down those trajectories that
        have not ended: behind the queue, where the next ones that end take their place."""
        ends = self._queue[0, self._first : self._last]
        self._first += int(np.searchsorted(ends, (self.oldest + self.shortest - 1) * self.columns))
        lengths = self.time - np.maximum(self._opened, self.oldest)
        is_long = np.flatnonzero(lengths >= self.shortest)
        self._write((self.time - 1) * self.columns + is_long, lengths[is_long])
        self._count = self._last - self._first + len(is_long)
