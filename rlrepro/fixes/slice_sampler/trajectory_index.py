"""Where trajectories lie in a ring buffer, kept up to date step by step."""

import numpy as np

GROWTH = 1.25  # of the arrays: at most 16 x 1.25 bytes per trajectory


class TrajectoryIndex:
    """The trajectories of at least `shortest` steps in a ring of `capacity` cells and `columns` (parallel environments:
    one step writes one transition of each).

    Steps are counted as they are written, 0, 1, 2, ..., without wrapping around: step `t` lies in cell `t % capacity`,
    and the oldest one stored is `oldest`. A trajectory that has ended is kept as two integers, its first step and the
    one after its last. Steps are written and overwritten in the same order, so the trajectories form a queue: a write
    takes time proportional to the steps written, however much is stored.

    A trajectory whose first steps were overwritten starts at `oldest`. So its length, and where the queue begins, are
    computed when they are needed.
    """

    def __init__(self, capacity: int, columns: int, shortest: int, time: int = 0):
        self.capacity, self.columns, self.shortest = capacity, columns, max(1, shortest)
        self.begin = self.time = time  # the first step, and the one after the last
        self._opened = np.full(columns, time)  # the first step of each column's current trajectory
        self._queue = np.empty((0, 2), dtype=np.int64)  # first step * columns + column, and the step after the last
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
            first_steps = starts.ravel().nonzero()[0]
            bounds = np.empty(len(first_steps) + 2, dtype=np.int64)
            bounds[0], bounds[1:-1], bounds[-1] = self._opened[0], first_steps + begin, self.time
            self._opened[0] = bounds[-2]
            self._push(bounds[:-1], 0, bounds[1:], still_open=1)
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
        firsts = np.empty_like(time)
        firsts[order] = previous
        self._push(
            np.concatenate([firsts, self._opened]),
            np.concatenate([columns, np.arange(self.columns)]),
            np.concatenate([times, np.full(self.columns, self.time)]),
            still_open=self.columns,
        )

    def close(self, firsts: np.ndarray, columns: np.ndarray, lengths: np.ndarray, time: int) -> None:
        """Add finished trajectories with these first steps, in any order, and add nothing later: at `time`, no column
        is in a trajectory."""
        ends = firsts + lengths
        order = np.argsort(ends, kind="stable")
        self.time = time
        self._opened[:] = time
        self._push(firsts[order], columns[order], ends[order], still_open=0)

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
        firsts, ends = self._queue.take(self._first + numbers, axis=0).T
        firsts, columns = np.divmod(firsts, self.columns) if self.columns > 1 else (firsts, np.zeros(len(ends), int))
        starts = np.maximum(firsts, self.oldest)
        return starts, columns, ends - starts

    def _push(self, firsts, columns, ends, still_open):
        """Append trajectories to the queue, the last `still_open` of them only until the next call, and drop those that
        have been overwritten or have become too short."""
        is_long = ends - firsts >= self.shortest
        end = self._write((firsts * self.columns + columns)[is_long], ends[is_long])
        self._last = end - np.count_nonzero(is_long[len(is_long) - still_open :])
        self._first += int(self._queue[self._first : end, 1].searchsorted(self.oldest + self.shortest))
        self._count = end - self._first

    def _write(self, firsts, ends) -> int:
        """Append to the queue, in a longer array if this one is full. Returns the new end of the queue."""
        begin, end = self._last, self._last + len(ends)
        if end > len(self._queue):
            live = self._queue[self._first : begin]
            begin, end = len(live), len(live) + len(ends)
            self._queue = np.empty((int(end * GROWTH) + 1, 2), dtype=np.int64)
            self._queue[:begin] = live
            self._first, self._last = 0, begin
        self._queue[begin:end, 0], self._queue[begin:end, 1] = firsts, ends
        return end
