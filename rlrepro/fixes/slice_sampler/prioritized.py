"""IncrementalPrioritizedSliceSampler: torchrl's PrioritizedSliceSampler without the scan of every transition."""

from contextlib import contextmanager
from functools import wraps

import numpy as np
import torch
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, PrioritizedSliceSampler

from .sampler import IncrementalSliceSampler, _Entries
from .torchrl_compat import (
    capacity_of,
    check_trees,
    columns_of,
    end_keys_of,
    finds_largest_in_tree,
    weight_key,
)
from .tracked_storage import READ_AT_ONCE


class IncrementalPrioritizedSliceSampler(IncrementalSliceSampler, PrioritizedSliceSampler):
    """A drop-in replacement for torchrl's PrioritizedSliceSampler, on a CPU, whose `sample` costs the same however much
    is stored.

    A slice starts at a transition drawn in proportion to its priority, among those that have enough of their trajectory
    left. To find them, PrioritizedSliceSampler reads everything that is stored; it sets the others to zero in its tree
    of priorities, draws, and sets them back. Here they stay zero, and a write updates only the transitions that it adds
    and the end of the trajectories that it continues. The second tree, that of the minima, still has the priorities of
    the transitions set to zero. Arguments, samples and the information with them are PrioritizedSliceSampler's own;
    `state_dict` has its format. Once a storage is full, PrioritizedSliceSampler (up to torchrl 0.14.1, the newest) also
    returns slices that cross the end of a trajectory if the storage has `ndim=2`, or with `span=(False, True)` or
    `(False, n)`; this sampler never does.

    Writes are followed, and errors raised, as in IncrementalSliceSampler. Raises ImportError if torchrl's extension,
    which keeps the priorities, does not load.

    Tested with torchrl 0.6.0, 0.7.2, 0.10.1, 0.12.0, 0.13.3, 0.14.1.
    """

    @wraps(PrioritizedSliceSampler.__init__)
    def __init__(self, *args, **options):
        check_trees()
        super().__init__(*args, **options)

    def forget(self) -> None:
        """Read all transitions again at the next sample."""
        super().forget()
        self._state = self._left = None

    @torch.compiler.disable
    def sample(self, storage, batch_size: int) -> tuple[tuple[torch.Tensor, ...], dict]:
        """Indices of the transitions, one tensor per dimension of the storage, and PrioritizedSliceSampler's info."""
        slice_len, num_slices = self._adjusted_batch_size(batch_size)
        with self._lock:
            self._follow(storage, slice_len)
            if self._sum_tree.query(0, len(storage)) <= 0:
                raise RuntimeError(self._too_short(storage, slice_len))
            starts, info = PrioritizedSampler.sample(self, storage, num_slices)
            starts = (
                torch.stack(starts, 1) if isinstance(starts, tuple) else starts.unsqueeze(1)
            )  # (slices, dimensions)
            lengths = torch.full((num_slices,), slice_len)
            if self.span[1] or not self.strict_length:
                lengths = torch.from_numpy(self._steps_left(storage, starts.numpy(), slice_len))
        ends = lengths.cumsum(0)
        steps = torch.arange(int(ends[-1])) - (ends - lengths).repeat_interleave(lengths)
        cells = starts.repeat_interleave(lengths, 0)
        cells[:, 0] = (cells[:, 0] + steps) % capacity_of(storage)
        index = cells.to(getattr(storage, "device", None)).unbind(1)
        weight = weight_key(info)
        info[weight] = info[weight].repeat_interleave(lengths).to(index[0].device)
        info.update(self._flags(_Entries(storage, index), ends - 1))
        return index, info

    def _follow(self, storage, slice_len: int) -> None:
        """Update the zeros in the tree after writes."""
        tail = 1 if self.span[1] is True else max(0, slice_len - 1 - self.span[1])
        tracked = self._track(storage)
        if self._cache:  # boundaries were passed as an argument
            state = tail, "given"
        else:
            keys = self.traj_key, end_keys_of(self)
            tracked.refresh(storage, keys, self._boundaries)
            state = tail, self.strict_length, tracked, tracked.restarts
        is_new, self._state = state != self._state, state
        if is_new:
            self._set_zeros(self._zeros(), False)
            self._left, self._seen = None, 0
        if self._cache or tracked.time is None:
            if is_new:
                self._follow_closed(storage, tail)
            return
        oldest, at_once = max(0, tracked.time - capacity_of(storage)), max(1, READ_AT_ONCE // columns_of(storage))
        begin = max(oldest, self._seen - tail)
        while begin < tracked.time:
            end = min(begin + at_once, tracked.time)
            starts = tracked.starts(storage, begin, min(end + tail, tracked.time))
            counts = starts.cumsum(0)
            zero = np.ones((end - begin, starts.shape[1]), dtype=bool)
            decided = max(0, min(len(starts) - tail, end - begin))
            zero[:decided] = counts[tail : tail + decided] != counts[:decided]
            if not self.strict_length:
                zero &= ~starts[: end - begin]
            self._write(zero, np.arange(begin, end) % capacity_of(storage))
            begin = end
        if not self.strict_length:  # the oldest stored step counts as the first of its trajectory
            self._write(np.zeros((1, columns_of(storage)), dtype=bool), np.array([oldest % capacity_of(storage)]))
        self._seen = tracked.time

    def _follow_closed(self, storage, tail: int) -> None:
        """The same for trajectories that torchrl finds; one of them may continue from the last cell to the first."""
        starts, _, lengths = (tensor.cpu() for tensor in self._get_stop_and_length(storage))
        capacity, columns = capacity_of(storage), columns_of(storage)
        steps = torch.arange(int(lengths.sum())) - (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        cells = (starts[:, 0].repeat_interleave(lengths) + steps) % capacity
        if starts.shape[1] > 1:
            column = np.ravel_multi_index(starts.numpy().T[1:], storage.shape[1:])
            cells = cells * columns + torch.from_numpy(column).repeat_interleave(lengths)
        remaining = lengths.repeat_interleave(lengths) - steps
        self._left = np.zeros(capacity * columns, dtype=np.int64)
        self._left[cells.numpy()] = remaining.numpy()
        zero = remaining <= tail
        if not self.strict_length:
            zero &= steps > 0
        self._set_zeros(cells[zero], True)

    def _steps_left(self, storage, starts: np.ndarray, slice_len: int) -> np.ndarray:
        """Steps from each start to the end of its trajectory, at most `slice_len`; starts: (slices, dimensions)."""
        column = (
            np.ravel_multi_index(starts.T[1:], storage.shape[1:]) if storage.ndim > 1 else np.zeros(len(starts), int)
        )
        if self._left is not None:
            return np.minimum(self._left[starts[:, 0] * columns_of(storage) + column], slice_len)
        tracked, capacity = self._track(storage), capacity_of(storage)
        newest = tracked.time - 1
        steps = (newest - starts[:, 0]) % capacity + 1  # until the head of the ring
        cells = (starts[:, :1] + np.arange(slice_len)) % min(capacity, tracked.time)
        is_new = tracked.boundaries.changes(storage, cells, column)  # (slices, slice_len - 1)
        return np.minimum(np.logical_and.accumulate(~is_new, 1).sum(1) + 1, steps)

    def _write(self, zero: np.ndarray, cells: np.ndarray) -> None:
        """Set the steps in these cells to zero, or back to their priority, as `zero` (cells, columns) says."""
        index = torch.from_numpy((cells[:, None] * zero.shape[1] + np.arange(zero.shape[1])).ravel())
        zero = torch.from_numpy(zero.ravel())
        is_zero = torch.as_tensor(self._sum_tree[index]) == 0
        self._set_zeros(index[zero & ~is_zero], True)
        self._set_zeros(index[~zero & is_zero], False)

    def _set_zeros(self, index: torch.Tensor, zero: bool) -> None:
        index = index[self._is_written(index)] if len(index) else index
        if len(index):
            priorities = torch.as_tensor(self._min_tree[index])
            self._sum_tree[index] = torch.zeros_like(priorities) if zero else priorities

    def _is_written(self, index: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self._min_tree[index]) < torch.finfo(self.dtype).max

    def _zeros(self, index: torch.Tensor | None = None) -> torch.Tensor:
        """The transitions of `index` that have a priority but are zero in the tree."""
        index = torch.arange(self._max_capacity) if index is None else index
        return index[(torch.as_tensor(self._sum_tree[index]) == 0) & self._is_written(index)]

    @contextmanager
    def _without_zeros(self, index: torch.Tensor | None = None):
        zeros = self._zeros(index)
        self._set_zeros(zeros, False)
        try:
            yield
        finally:
            self._set_zeros(zeros, True)

    def update_priority(self, index, priority, *, storage=None) -> None:
        indices = torch.as_tensor(index, dtype=torch.long).cpu()
        if indices.ndim > 1 and storage is not None:
            indices = torch.as_tensor(np.ravel_multi_index(indices.unbind(-1), storage.shape))
        indices = indices.reshape(-1)
        with self._lock, self._without_zeros(None if finds_largest_in_tree(self) else indices[indices >= 0]):
            super().update_priority(index, priority, storage=storage)

    def _tree_argmax(self):
        """The largest priority, including those of transitions that are zero in the tree."""
        values = torch.as_tensor(self._min_tree[torch.arange(self._max_capacity)])
        return values.where(values < torch.finfo(self.dtype).max, 0).max(0)

    def _retransform_priority_trees(self, *exponents):
        with self._lock, self._without_zeros():
            super()._retransform_priority_trees(*exponents)

    def state_dict(self) -> dict:
        with self._lock, self._without_zeros():
            return super().state_dict()

    def dumps(self, path) -> None:
        with self._lock, self._without_zeros():
            super().dumps(path)

    def loads(self, path) -> None:
        super().loads(path)
        self.forget()
