"""SharedActionBuffer: transitions that store an action as its index in one shared table."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import LazyTensorStorage, ListStorage, ReplayBuffer, Storage

from .packed_masks import EVERYTHING, PackedMasks

MASKS = ("action_mask", ("next", "action_mask"))
MASKS_FILE = "action_masks.npz"
REFUSED = ("transform", "transform_factory", "prefetch", "shared")


class SharedActionBuffer(ReplayBuffer):
    """torchrl's ReplayBuffer for large sets of discrete actions.

    Args:
        capacity: transitions; the oldest are overwritten
        actions: (A, d) features of all actions, a tensor, an array or a list; stored once, on the device of the batches
        device: of the batches and the table; None for the device of `actions`
        storage: a torchrl storage for tensors; None for LazyTensorStorage(capacity) on the CPU
        options: further arguments of ReplayBuffer (batch_size, sampler, ...), except transform, transform_factory,
            prefetch and shared

    `extend` and `add` take transitions in TorchRL's format. "action" is an index into the table. If not every action is
    available, "action_mask" and ("next", "action_mask") are bools (A,) for the state and the next state. An action
    takes 4 bytes, and so does a mask, as a number: each distinct mask is stored once, as bits, and one that allows
    every action is not stored. `sample` returns the batch on `device`, with masks as bools (B, A) once there are any.
    Batches go from the CPU to a GPU through pinned memory, asynchronously.

    Raises ValueError for an action outside the table or forbidden by its mask, a mask of the wrong shape, a mask of the
    state without one of the next state, and a state without any available action unless the episode has ended there.

    Tested with torchrl 0.6.0, 0.7.2, 0.10.1, 0.13.3, 0.14.1.
    """

    def __init__(
        self,
        capacity: int,
        actions: torch.Tensor | np.ndarray | Sequence[Sequence[float]],
        *,
        device: str | torch.device | None = None,
        storage: Storage | None = None,
        **options,
    ):
        if storage is None and capacity < 1:
            raise ValueError(f"capacity must be at least 1 transition, found {capacity}")
        if not isinstance(actions, torch.Tensor):
            actions = torch.as_tensor(actions, dtype=torch.get_default_dtype())
        if actions.ndim != 2 or not len(actions):
            raise ValueError(f"actions must be a table (A, d) with one row per action, found {tuple(actions.shape)}")
        if refused := [name for name in REFUSED if options.get(name)]:
            raise ValueError(
                f"SharedActionBuffer does not take {refused}: leave them out, and transform batches after sampling"
            )
        if isinstance(storage, ListStorage):
            raise ValueError(f"storage must hold tensors, as LazyTensorStorage does; found {type(storage).__name__}")
        super().__init__(storage=LazyTensorStorage(capacity) if storage is None else storage, **options)
        self.actions = actions.to(device)
        self.masks = PackedMasks(len(actions), self._masks_in_use)
        self._masked = False  # whether any masks have been stored

    def extend(self, data: TensorDictBase | Sequence[TensorDictBase], **options) -> torch.Tensor:
        """Store transitions (n,), or (n, ...) if the storage has more dimensions, or a list of them. Returns their
        indices. Without any transitions, nothing changes."""
        if isinstance(data, list | tuple):
            data = torch.stack(list(data)) if data else TensorDict(batch_size=0)
        if not data.batch_size.numel():
            return torch.empty((0,) if self.storage.ndim == 1 else (0, self.storage.ndim), dtype=torch.long)
        with self._replay_lock:
            return super().extend(self._packed(data), **options)

    def add(self, data: TensorDictBase) -> int:
        """Store one transition. Returns its index."""
        with self._replay_lock:
            return super().add(self._packed(data))

    def __getitem__(self, index) -> TensorDictBase:
        """Stored transitions, as `sample` returns them."""
        if isinstance(index, (str, tuple)):  # torchrl looks these up in self[:]
            return super().__getitem__(index)
        with self._replay_lock:
            return self._unpacked(super().__getitem__(index))

    def __setitem__(self, index, data: TensorDictBase) -> None:
        """Replace stored transitions. Raises ValueError for single entries."""
        if isinstance(index, (str, tuple)):
            raise ValueError(f"expected the indices of transitions, found {index!r}; replace whole transitions")
        with self._replay_lock:
            super().__setitem__(index, self._packed(data))

    def append_transform(self, *args, **options):
        """Raises ValueError: a transform would see masks as numbers."""
        raise ValueError("SharedActionBuffer takes no transform; transform batches after sampling")

    insert_transform = append_transform

    def state_dict(self) -> dict:
        """A copy of what is stored, which `torch.load` accepts with `weights_only`."""
        with self._futures_lock, self._replay_lock:
            return deepcopy(super().state_dict()) | {"masks": self._mask_state()}

    def load_state_dict(self, state_dict: dict) -> None:
        """Load what `state_dict` returned. Raises ValueError, and loads nothing, for a table with another number of
        actions."""
        with self._futures_lock, self._replay_lock:
            self.masks.check_state(state_dict["masks"])
            super().load_state_dict(state_dict)
            self._load_masks(state_dict["masks"])

    def dumps(self, path) -> None:
        """Write what is stored to a folder."""
        with self._futures_lock, self._replay_lock:
            super().dumps(path)
            np.savez(Path(path) / MASKS_FILE, **self._mask_state())

    def loads(self, path) -> None:
        """Read what `dumps` wrote. Raises ValueError like `load_state_dict`."""
        with self._futures_lock, self._replay_lock, np.load(Path(path) / MASKS_FILE) as state:
            self.masks.check_state(state)
            super().loads(path)
            self._load_masks(state)

    def _sample(self, batch_size: int):
        with self._replay_lock:  # as torchrl does; mask numbers must not change before they are unpacked
            batch, info = super()._sample(batch_size)
            return self._unpacked(batch), info

    def _packed(self, data: TensorDictBase) -> TensorDictBase:
        action, count = data["action"], len(self.actions)
        if action.is_floating_point() or action.dtype == torch.bool or action.shape != data.batch_size:
            raise ValueError(
                f"action must be one index into the table per transition, whole numbers of shape "
                f"{tuple(data.batch_size)}; found {action.dtype} of {tuple(action.shape)}"
            )
        if (outside := (action < 0) | (action >= count)).any():
            invalid = action[outside][:10].tolist()
            raise ValueError(f"actions must be indices into the table, 0 to {count - 1}; found {invalid}")
        masks = {key: mask for key in MASKS if (mask := data.get(key, None)) is not None}
        for key, mask in masks.items():
            _check_mask(key, mask, data, count)
        if "action_mask" in masks:
            if MASKS[1] not in masks:
                raise ValueError(
                    f"found action_mask without {MASKS[1]}, so targets would include forbidden actions; store both"
                )
            allowed = masks["action_mask"].gather(-1, action.long().unsqueeze(-1)).squeeze(-1)
            if not allowed.all():
                raise ValueError(
                    f"transitions {(~allowed).nonzero().tolist()[:10]} have an action that action_mask forbids; it "
                    "should be the mask of the state in which the action was taken"
                )
        packed = data.copy()  # shares the tensors, but not the entries
        packed["action"] = action.to(torch.int32)
        for key in MASKS:
            packed[key] = torch.full(data.batch_size, EVERYTHING, dtype=torch.int32, device=action.device)
        if masks and action.numel():  # all at once, so that none is dropped before it is stored
            self._masked = True
            numbers = self.masks.put(torch.cat([mask.reshape(-1, count) for mask in masks.values()]))
            for key, part in zip(masks, numbers.split(action.numel()), strict=True):
                packed[key] = part.to(action.device).reshape(data.batch_size)
        return packed

    def _unpacked(self, batch: TensorDictBase) -> TensorDictBase:
        device = self.actions.device
        batch = batch.copy()
        numbers = {key: batch.pop(key) for key in MASKS}
        if device.type == "cuda" and (batch.device is None or batch.device.type == "cpu"):
            batch = batch.pin_memory()
        batch = batch.to(device, non_blocking=True)
        batch["action"] = batch["action"].long()
        if self._masked:
            for key, part in numbers.items():
                batch[key] = self.masks.get(part, device)
        return batch

    def _masks_in_use(self) -> np.ndarray:
        if not len(self):
            return np.empty(0, np.int32)
        stored = self.storage[:]
        return np.concatenate([stored[key].cpu().numpy().ravel() for key in MASKS])

    def _mask_state(self) -> dict:
        return {"masked": self._masked, **self.masks.state_dict()}

    def _load_masks(self, state) -> None:
        self._masked = bool(state["masked"])
        self.masks.load_state_dict(state)


def _check_mask(key, mask: torch.Tensor, data: TensorDictBase, count: int) -> None:
    shape = (*data.batch_size, count)
    if mask.dtype != torch.bool or tuple(mask.shape) != shape:
        raise ValueError(f"{key} must be bool of shape {shape}, found {mask.dtype} of {tuple(mask.shape)}")
    any_action = mask.any(dim=-1)
    if key != "action_mask":
        any_action = any_action | data["next", "terminated"].bool().reshape(any_action.shape)
    if not any_action.all():
        positions = (~any_action).nonzero().tolist()[:10]
        raise ValueError(
            f"{key} must allow an action, unless the episode ended; it allows none in transitions {positions}"
        )
