"""IncrementalSliceSamplerWithoutReplacement: a slice of each trajectory once per epoch, without the scan."""

from functools import wraps

import numpy as np
import torch
from torchrl.data.replay_buffers.samplers import SliceSamplerWithoutReplacement

from .sampler import IncrementalSliceSampler
from .torchrl_compat import dispatch_without_replacement


class IncrementalSliceSamplerWithoutReplacement(IncrementalSliceSampler, SliceSamplerWithoutReplacement):
    """A drop-in replacement for torchrl's SliceSamplerWithoutReplacement at the cost of IncrementalSliceSampler, also
    made by `IncrementalSliceSampler(replacement=False)` where torchrl has that argument (from 0.14 on).

    In an epoch, one random slice is taken of each trajectory that is long enough, in random order, or in the order in
    which they ended with `shuffle=False`. `ran_out` says that the last batch ended an epoch; that batch may be smaller,
    and is dropped with `drop_last=True`. As in torchrl, an epoch starts again when the number of trajectories changes.
    Unlike torchrl, trajectories that are too short don't make batches smaller. The order is drawn as it is needed, so a
    new epoch costs nothing. `state_dict` has torchrl's format.

    Raises what IncrementalSliceSampler raises, and ValueError if `drop_last` is set and there are fewer trajectories
    than slices in a batch.
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
        num_slices = min(num_slices, count - self._next)
        steps = np.zeros(num_slices, dtype=np.int64)
        if self.shuffle:  # Fisher and Yates, with a table of only what was swapped
            left = count - self._next - np.arange(num_slices)
            steps = np.minimum(
                (self._random(torch.rand, num_slices).astype(np.float64) * left).astype(np.int64), left - 1
            )
        drawn = np.empty(num_slices, dtype=np.int64)
        for place, step in enumerate(steps.tolist()):
            other = self._next + step
            first = self._swapped.pop(self._next, self._next)
            drawn[place] = self._swapped.get(other, other) if step else first
            if step:
                self._swapped[other] = first
            self._next += 1
        left = count - self._next
        self.ran_out = left == 0 or (self.drop_last and left < num_slices)
        if self.ran_out:
            self._start_epoch(count)
        left = count - self._next
        self._remaining_batches = left // num_slices if self.drop_last else -(left // -num_slices)
        return drawn

    def _start_epoch(self, count: int):
        self.len_storage, self._next, self._swapped = count, 0, {}

    @property
    def _sample_list(self) -> torch.Tensor | None:
        """What this epoch has left, as torchrl keeps it."""
        if self._next is None:
            return None
        return torch.tensor([self._swapped.get(each, each) for each in range(self._next, self.len_storage)])

    @_sample_list.setter
    def _sample_list(self, left):
        self._next, self._swapped = None, {}
        if left is not None:
            self._next = self.len_storage - len(left)
            self._swapped = dict(enumerate(left.tolist(), self._next))

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
