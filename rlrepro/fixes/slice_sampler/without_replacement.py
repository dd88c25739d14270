"""IncrementalSliceSamplerWithoutReplacement: a slice of each trajectory once per epoch, without the scan."""

from functools import wraps

import numpy as np
import torch
from torchrl.data.replay_buffers.samplers import SliceSamplerWithoutReplacement

from .sampler import IncrementalSliceSampler
from .torchrl_compat import dispatch_without_replacement
from .trajectory_index import GROWTH

RANDOM_BELOW = 2**62  # so large that a remainder is practically uniform


class IncrementalSliceSamplerWithoutReplacement(IncrementalSliceSampler, SliceSamplerWithoutReplacement):
    """A drop-in replacement for torchrl's SliceSamplerWithoutReplacement at the cost of IncrementalSliceSampler, also
    created by `IncrementalSliceSampler(replacement=False)` if torchrl has that argument (from 0.14 on).

    In an epoch, one random slice is taken from each trajectory that is long enough, in random order or, with
    `shuffle=False`, in the order in which they ended. `ran_out` is True if the last batch ended an epoch; that batch
    may be smaller, and is dropped with `drop_last=True`. As in torchrl, an epoch starts again when the number of
    trajectories changes. Unlike in torchrl, trajectories that are too short don't make batches smaller. The order is
    drawn as it is needed, so a new epoch costs nothing. `state_dict` has torchrl's format.

    Raises what IncrementalSliceSampler raises, and ValueError if `drop_last` is set and there are fewer trajectories
    than slices in a batch.

    Tested with torchrl 0.6.0, 0.7.2, 0.10.1, 0.12.0, 0.13.3, 0.14.1.
    """

    @wraps(SliceSamplerWithoutReplacement.__init__)
    def __init__(self, **options):
        super().__init__(**options)

    def _draw(self, count: int, num_slices: int) -> np.ndarray:
        if self.drop_last and count < num_slices:
            raise ValueError(
                f"expected at least {num_slices} trajectories, one per slice, found {count}: lower the batch size, or "
                "pass drop_last=False"
            )
        if count != self.len_storage or self._next is None:
            self._start_epoch(count)
        self._close_gaps()
        self._offset_numbers = None  # random numbers, if they were drawn together with the places
        num_slices = min(num_slices, count - self._next)
        first, last = self._next, self._next + num_slices
        if self.shuffle:
            self._places = self._distinct(first, count, num_slices)
            trajectories = self._order[self._places]
        else:
            trajectories = self._order[first:last].copy()
        self._next, remaining = last, count - last
        self.ran_out = remaining == 0 or (self.drop_last and remaining < num_slices)
        if self.ran_out:
            self._start_epoch(count)
        remaining = count - self._next
        self._remaining_batches = remaining // num_slices if self.drop_last else -(remaining // -num_slices)
        return trajectories

    def _offsets(self, positions: np.ndarray) -> np.ndarray:
        return super()._offsets(positions) if self._offset_numbers is None else self._offset_numbers % positions

    def _close_gaps(self):
        """Move the trajectories that the last draw skipped to the places of those that it took, so that all remaining
        ones come after it."""
        if self._places is not None:
            places, last, self._places = self._places, self._next, None
            first, later = last - len(places), places[places >= last]
            is_unused = np.ones(len(places), dtype=bool)
            is_unused[places[places < last] - first] = False
            self._order[later] = self._order[first:last][is_unused]
            self._changed.append(later)

    def _distinct(self, first: int, last: int, count: int) -> np.ndarray:
        """`count` distinct integers from `first` to `last`, exclusive, in random order; any order is equally likely."""
        if last - first < 4 * count:
            return first + self._random(torch.randperm, last - first)[:count]
        while True:  # more than needed, so that enough remain without duplicates
            numbers = self._random(torch.randint, RANDOM_BELOW, (2 * count + count // 4,))
            self._offset_numbers, places = numbers[:count], first + numbers[count:] % (last - first)
            order = np.arange(len(places))
            self._draw_of[places] = order
            places = places[self._draw_of[places] == order]
            if len(places) >= count:
                return places[:count]

    def _start_epoch(self, count: int):
        self.len_storage, self._next, self._places = count, 0, None
        if count > len(self._order):
            self._set_order(np.arange(int(count * GROWTH)))
        for places in self._changed:  # at most as many as were drawn, however many trajectories there are
            self._order[places] = places
        self._changed = []

    def _set_order(self, order: np.ndarray):
        self._order, self._changed, self._places = order, [], None
        self._draw_of = np.empty_like(order)

    @property
    def _sample_list(self) -> torch.Tensor | None:
        """The trajectories that this epoch has left, as torchrl stores them."""
        self._close_gaps()
        return None if self._next is None else torch.tensor(self._order[self._next : self.len_storage])

    @_sample_list.setter
    def _sample_list(self, remaining):
        self._next = None if remaining is None else self.len_storage - len(remaining)
        self._set_order(np.arange(self.len_storage if remaining is not None else 0))
        if remaining is not None:
            self._order[self._next :] = remaining.numpy(force=True)
            self._changed = [np.arange(self._next, self.len_storage)]

    def can_sample(self, storage, batch_size: int) -> bool:
        """Whether there are trajectories for a batch; with `drop_last`, as many as it has slices."""
        slice_len, num_slices = self._adjusted_batch_size(batch_size)
        try:
            with self._lock:
                count = len(self._index(storage, slice_len if self.strict_length else 1))
        except (KeyError, RuntimeError):  # empty, or without boundaries
            return False
        return count >= (num_slices if self.drop_last else 1)


dispatch_without_replacement(IncrementalSliceSampler, IncrementalSliceSamplerWithoutReplacement)
