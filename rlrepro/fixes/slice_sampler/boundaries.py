"""Where trajectories start in a torchrl storage, by its ids or flags."""

from dataclasses import dataclass, field

import numpy as np
import torch
from tensordict import is_tensor_collection


@dataclass
class Boundaries:
    """The entries of a storage that separate trajectories: ids that change, or flags at each last transition."""

    keys: tuple  # of flags, any of which ends a trajectory; or the single key of the ids
    are_ids: bool
    # the tensors of the storage, and an array that shares the memory of the entry
    _in_place: tuple = field(default=(None, None), init=False, repr=False, compare=False)

    def are_in(self, storage) -> bool:
        return any(entry(storage, key, slice(0, 1)) is not None for key in self.keys)

    def starts(self, storage, cells: slice, before: slice) -> np.ndarray:
        """Whether a trajectory starts in these cells: (cells, columns). `before` is the cell written before the first
        of them. Raises RuntimeError if an entry is not one number per transition."""
        if (stored := self._stored(storage)) is not None:
            is_next = before.stop == cells.start
            values = stored[before.start : cells.stop] if is_next else np.concatenate([stored[before], stored[cells]])
            return values[1:] != values[:-1] if self.are_ids else values[:-1]
        if before.stop == cells.start:
            values = self._read(storage, slice(before.start, cells.stop))
        else:
            values = torch.cat([self._read(storage, before), self._read(storage, cells)])
        if self.are_ids:
            return (values[1:] != values[:-1]).cpu().numpy()
        return values.cpu().numpy()[:-1]

    def _stored(self, storage) -> np.ndarray | None:
        """The whole entry as an array (cells, columns) that shares the storage's memory, kept until the storage has
        other tensors. None if there is no such array: for several flags, non-bool flags, tensors on a GPU, ..."""
        tensors = getattr(storage, "_storage", None)
        if self._in_place[0] is not tensors:
            self._in_place = tensors, self._array_on(tensors, storage)
        return self._in_place[1]

    def _array_on(self, tensors, storage) -> np.ndarray | None:
        keys = [key for key in self.keys if is_tensor_collection(tensors) and tensors.get(key, None) is not None]
        if len(keys) != 1 or not isinstance(values := tensors.get(keys[0]), torch.Tensor):
            return None
        has_type = not values.is_floating_point() if self.are_ids else values.dtype is torch.bool
        is_no_copy = values.is_contiguous() and values.data_ptr() == tensors.get(keys[0]).data_ptr()
        if not has_type or not is_no_copy or values.device.type != "cpu":
            return None
        return self._checked(keys[0], values, storage).numpy()

    def changes(self, storage, cells: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Whether a trajectory starts between each cell (rows, steps) and the next one in its row, in the column of
        that row: (rows, steps - 1)."""
        values = self._read(storage, torch.from_numpy(cells.ravel())).cpu().numpy()
        values = values[np.arange(len(values)), column.repeat(cells.shape[1])].reshape(cells.shape)
        return values[:, 1:] != values[:, :-1] if self.are_ids else values[:, :-1]

    def _read(self, storage, cells):
        entries = {key: entry(storage, key, cells) for key in self.keys}
        values = [self._checked(key, value, storage) for key, value in entries.items() if value is not None]
        if not values:
            raise RuntimeError(
                f"expected {' or '.join(map(repr, self.keys))} in every transition of the storage; some lack it. Store "
                "it with each, or choose another entry with end_key or traj_key"
            )
        if self.are_ids or (len(values) == 1 and values[0].dtype is torch.bool):
            return values[0]
        return torch.stack([value != 0 for value in values]).any(0)

    def _checked(self, key, values, storage):
        """The values as (cells, columns)."""
        is_real = isinstance(values, torch.Tensor) and not values.is_complex()
        if is_real and storage.ndim == 1 and values.shape[1:] in ((), (1,)):  # the usual case, in each sample
            return values.reshape(-1, 1)
        kind = "id" if self.are_ids else "flag"
        if not is_real:
            kind_stored = values.dtype if isinstance(values, torch.Tensor) else type(values).__name__
            raise RuntimeError(
                f"{key!r} must hold one number per transition, the {kind} of its trajectory; found {kind_stored}. "
                "Convert it, or choose another entry with end_key or traj_key"
            )
        columns = tuple(storage.shape[1:]) if storage.ndim > 1 else ()
        shape = tuple(values.shape[1:])
        if shape[: len(columns)] != columns or set(shape[len(columns) :]) - {1}:
            wanted, actual = (f"(time, {', '.join(map(str, dims))})" for dims in ((*columns, 1), shape))
            raise RuntimeError(
                f"Expected the end-of-trajectory signal to be {storage.ndim}-dimensional: {key!r} must hold one {kind} "
                f"per transition, {wanted}; found {actual}. Reshape it, or choose another entry with end_key or "
                "traj_key"
            )
        return values.reshape(len(values), -1)


def entry(storage, key, cells):
    """An entry at these cells (a slice or indices), without reading other entries; None if there is no such entry."""
    if key is None:
        return None
    tensors = getattr(storage, "_storage", None)
    if is_tensor_collection(tensors):
        values = tensors.get(key, None)
        return values if values is None else values[cells]
    data = storage[cells]
    return data.get(key, None) if hasattr(data, "get") else None
