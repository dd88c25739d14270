"""Where trajectories lie in a ring buffer, kept up to date step by step."""

import numpy as np

GROWTH = 1.25  # of the arrays: at most 16 x 1.25 bytes per trajectory


class TrajectoryIndex:
    """The trajectories of at least `shortest` steps in a ring of `capacity` cells and `columns` (parallel environments:
    one step writes one transition of each).

    Steps are counted as they are written, 0, 1, 2, ..., without wrapping around: step `t` lies in cell `t % capacity`,
    and the oldest one stored is `oldest`. A trajectory that has ended is kept as two integers, its last step and its
    length. Steps are written and overwritten in the same order, so the trajectories form a queue: a write takes time
    proportional to the steps written, however much is stored.

    A trajectory whose first steps were overwritten is shorter than its stored length. So its length, and where the
    queue begins, are computed from `oldest` when they are needed.
    """

    def __init__(self, capacity: int, columns: int, shortest: int, time: int = 0):
        self.capacity, self.columns, self.shortest = capacity, columns, max(1, shortest)
        self.begin = self.time = time  # the first step, and the one after the last
        self._opened = np.full(columns, time)  # the first step of each column's current trajectory
        self._queue = np.empty((2, 0), dtype=np.int64)  # last step * columns + column, and length
        self._first = self._last = 0  # the part of the queue that is in use
        self._count = 0

    @property
    def oldest(self) -> int:
        """The oldest step that has not been overwritten."""
        return max(self.begin, self.time - self.capacity)

    def append(self, starts: np.ndarray) -> None:
        """Add steps; `starts`: (steps, columns), whether a trajectory starts there."""
        begin, self.time = self.time, self.time + len(starts)
        if self.columns == 1:
            bounds = np.concatenate([self._opened, starts.ravel().nonzero()[0] + begin, [self.time]])
            self._opened[0] = bounds[-2]
            self._push(bounds[1:] - 1, bounds[1:] - bounds[:-1], still_open=1)
            return
        times, columns = starts.nonzero()
        times += begin
        order = np.argsort(columns, kind="stable")  # column by column, each in order of time
        time, column = times[order], columns[order]
        is_first = np.diff(column, prepend=-1) > 0
        previous = np.concatenate([[0], time])[:-1]  # where the trajectory that ends here started
        previous[is_first] = self._opened[column[is_first]]
        is_last = np.diff(column, append=self.columns) > 0
        self._opened[column[is_last]] = time[is_last]
        lengths = np.empty_like(time)
        lengths[order] = time - previous
        latest = (self.time - 1) * self.columns + np.arange(self.columns)
        ends = np.concatenate([(times - 1) * self.columns + columns, latest])
        self._push(ends, np.concatenate([lengths, self.time - self._opened]), still_open=self.columns)

    def close(self, last: np.ndarray, columns: np.ndarray, lengths: np.ndarray, time: int) -> None:
        """Add finished trajectories with these last steps, in any order, and add nothing later: at `time`, no column is
        in a trajectory."""
        order = np.argsort(last, kind="stable")
        self.time = time
        self._opened[:] = time
        self._push((last * self.columns + columns)[order], lengths[order], still_open=0)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes that the index holds."""
        return self._queue.nbytes + self._opened.nbytes

    @property
    def lengths(self) -> np.ndarray:
        """Steps of each trajectory."""
        return self.at(np.arange(len(self)))[2]

    def at(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First step, column and length of these trajectories, numbered from 0 in the order in which they ended; those
        that have not ended come last."""
        last, lengths = self._queue.take(self._first + numbers, axis=1)
        last, columns = np.divmod(last, self.columns) if self.columns > 1 else (last, np.zeros(len(last), dtype=int))
        starts = np.maximum(last - lengths + 1, self.oldest)
        return starts, columns, last - starts + 1

    def _push(self, ends, lengths, still_open):
        """Append trajectories to the queue, the last `still_open` of them only until the next call, and drop those that
        have been overwritten or have become too short."""
        is_long = lengths >= self.shortest
        end = self._write(ends[is_long], lengths[is_long])
        self._last = end - np.count_nonzero(is_long[len(is_long) - still_open :])
        shortest_end = (self.oldest + self.shortest - 1) * self.columns
        self._first += int(self._queue[0, self._first : end].searchsorted(shortest_end))
        self._count = end - self._first

    def _write(self, ends, lengths) -> int:
        """Append to the queue, in a longer array if this one is full. Returns the new end of the queue."""
        begin, end = self._last, self._last + len(ends)
        if end > self._queue.shape[1]:
            live = self._queue[:, self._first : begin]
            begin, end = live.shape[1], live.shape[1] + len(ends)
            self._queue = np.empty((2, int(end * GROWTH) + 1), dtype=np.int64)
            self._queue[:, :begin] = live
            self._first, self._last = 0, begin
        self._queue[0, begin:end], self._queue[1, begin:end] = ends, lengths
        return end
