"""What tells in a torchrl storage where a trajectory starts."""

from dataclasses import dataclass

import numpy as np
import torch
from tensordict import is_tensor_collection


@dataclass(frozen=True)
class Boundaries:
    """The entries of a storage that tell trajectories apart: ids that change, or flags at the last row of each."""

    keys: tuple  # of flags, any of which is enough; or the one of the ids
    are_ids: bool

    def are_in(self, storage) -> bool:
        return any(entry(storage, key, slice(0, 1)) is not None for key in self.keys)

    def starts(self, storage, cells: slice, before: slice) -> np.ndarray:
        """Whether a trajectory starts in these cells: (cells, columns). `before` is the cell written before the first
        of them. Raises RuntimeError for entries that are not one number for each row."""
        values = torch.cat([self._read(storage, before), self._read(storage, cells)])
        starts = values[1:] != values[:-1] if self.are_ids else values[:-1]
        return starts.cpu().numpy()

    def _read(self, storage, cells):
        found = {key: entry(storage, key, cells) for key in self.keys}
        values = [self._checked(key, value, storage) for key, value in found.items() if value is not None]
        if not values:
            raise RuntimeError(f"{', '.join(map(repr, self.keys))}: not in every row of the storage")
        return values[0] if self.are_ids else torch.stack([value != 0 for value in values]).any(0)

    def _checked(self, key, values, storage):
        """A column for each place of the storage behind the first dimension."""
        kind = "id" if self.are_ids else "flag"
        if not isinstance(values, torch.Tensor) or values.is_complex():
            found = values.dtype if isinstance(values, torch.Tensor) else type(values).__name__
            raise RuntimeError(f"{key!r} must hold a number for each row, the {kind} of a trajectory; found {found}")
        columns = tuple(storage.shape[1:]) if storage.ndim > 1 else ()
        shape = tuple(values.shape[1:])
        if shape[: len(columns)] != columns or set(shape[len(columns) :]) - {1}:
            wanted, found = (f"(rows, {', '.join(map(str, each))})" for each in ((*columns, 1), shape))
            raise RuntimeError(
                f"Expected the end-of-trajectory signal to be {storage.ndim}-dimensional: {key!r} must hold one {kind} "
                f"for each row, {wanted}; found {found}. Store it so, or name another entry with end_key or traj_key"
            )
        return values.reshape(len(values), -1)


def entry(storage, key, rows):
    """These rows of an entry (a slice or indices), without touching other entries; None where there is none."""
    if key is None:
        return None
    held = getattr(storage, "_storage", None)
    if is_tensor_collection(held):
        values = held.get(key, None)
        return values if values is None else values[rows]
    data = storage[rows]
    return data.get(key, None) if hasattr(data, "get") else None
