"""SharedActionBuffer: transitions that name their action by its row in one table, held once."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from tensordict import TensorDictBase
from torchrl.data import LazyTensorStorage, ListStorage, ReplayBuffer, Storage

from .packed_masks import EVERYTHING, PackedMasks

MASKS = ("action_mask", ("next", "action_mask"))
MASKS_FILE = "action_masks.npz"
REFUSED = ("transform", "transform_factory", "prefetch", "shared")


class SharedActionBuffer(ReplayBuffer):
    """torchrl's ReplayBuffer for large sets of discrete actions.

    capacity    transitions; the oldest are overwritten
    actions     (A, d) features of all actions, held once, on the device of the batches
    device      of the batches and the table; None is where `actions` is
    storage     a storage of torchrl for tensors; None is LazyTensorStorage(capacity) on the CPU
    options     further arguments of ReplayBuffer (batch_size, sampler, ...), except transform, transform_factory,
                prefetch and shared

    `extend` and `add` take transitions in TorchRL's form, with "action" a row of the table, and, where not every action
    is available, bools (A,) in "action_mask" for the state and ("next", "action_mask") for the next. The action is
    kept in 4 bytes, a mask as a number of 4 bytes: each different mask is held once, in bits, and one that allows
    everything not at all. `sample` gives the batch on `device`, with masks as bools (B, A) once any were given. From
    the CPU to a GPU it is copied from pinned memory, without waiting.

    Raises ValueError for an action outside the table, a mask of another shape and a state without any action, unless
    the episode has ended there.

    Tested with torchrl 0.6.0, 0.7.2, 0.10.1, 0.13.3, 0.14.1.
    """

    def __init__(
        self,
        capacity: int,
        actions: torch.Tensor,
        *,
        device: str | torch.device | None = None,
        storage: Storage | None = None,
        **options,
    ):
        if actions.ndim != 2 or not len(actions):
            raise ValueError(f"actions must be a table (A, d) with a row for each action, found {tuple(actions.shape)}")
        if refused := [name for name in REFUSED if options.get(name)]:
            raise ValueError(f"SharedActionBuffer does not take {refused}; transform batches after sampling")
        if isinstance(storage, ListStorage):
            raise ValueError(f"storage must hold tensors, as LazyTensorStorage does; found {type(storage).__name__}")
        super().__init__(storage=LazyTensorStorage(capacity) if storage is None else storage, **options)
        self.actions = actions.to(device)
        self.masks = PackedMasks(len(actions), self._masks_in_use)
        self._masked = False  # whether any masks were given

    def extend(self, data: TensorDictBase, **options) -> torch.Tensor:
        """Store transitions (n,), or (n, ...) where the storage has more dimensions. Returns where they lie."""
        with self._replay_lock:
            return super().extend(self._packed(data), **options)

    def add(self, data: TensorDictBase) -> int:
        """Store one transition. Returns where it lies."""
        with self._replay_lock:
            return super().add(self._packed(data))

    def append_transform(self, *args, **options):
        """Refused: it would see masks as numbers."""
        raise ValueError("SharedActionBuffer takes no transform; transform batches after sampling")

    insert_transform = append_transform

    def state_dict(self) -> dict:
        """What is stored, as a copy."""
        with self._futures_lock, self._replay_lock:
            return deepcopy(super().state_dict()) | {"masks": self._mask_state()}

    def load_state_dict(self, state_dict: dict) -> None:
        with self._futures_lock, self._replay_lock:
            super().load_state_dict(state_dict)
            self._load_masks(state_dict["masks"])

    def dumps(self, path) -> None:
        """Write what is stored into a folder."""
        with self._futures_lock, self._replay_lock:
            super().dumps(path)
            np.savez(Path(path) / MASKS_FILE, **self._mask_state())

    def loads(self, path) -> None:
        """Read what `dumps` has written."""
        with self._futures_lock, self._replay_lock, np.load(Path(path) / MASKS_FILE) as state:
            super().loads(path)
            self._load_masks(state)

    def _sample(self, batch_size: int):
        with self._replay_lock:  # torchrl takes it here as well; the numbers of the masks must not change in between
            batch, info = super()._sample(batch_size)
            return self._unpacked(batch), info

    def _packed(self, data: TensorDictBase) -> TensorDictBase:
        action, count = data["action"], len(self.actions)
        if action.is_floating_point() or action.dtype == torch.bool or action.shape != data.batch_size:
            raise ValueError(
                f"action must be a row of the table for each transition, whole numbers of shape "
                f"{tuple(data.batch_size)}; found {action.dtype} of {tuple(action.shape)}"
            )
        if len(outside := action[(action < 0) | (action >= count)]):
            raise ValueError(f"actions must be rows of the table, 0 to {count - 1}; found {outside[:10].tolist()}")
        given = {key: mask for key in MASKS if (mask := data.get(key, None)) is not None}
        for key, mask in given.items():
            _check_mask(key, mask, data, count)
        packed = data.copy()  # the tensors are shared, the entries are not
        packed["action"] = action.to(torch.int32)
        for key in MASKS:
            packed[key] = torch.full(data.batch_size, EVERYTHING, dtype=torch.int32, device=action.device)
        if given:  # all at once, so that none of them is forgotten before it is stored
            self._masked = True
            numbers = self.masks.put(torch.cat([mask.reshape(-1, count) for mask in given.values()]))
            for key, found in zip(given, numbers.split(action.numel()), strict=True):
                packed[key] = found.to(action.device).reshape(data.batch_size)
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
            for key, found in numbers.items():
                batch[key] = self.masks.get(found, device)
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
        self.masks.load_state_dict({"numbers": [int(n) for n in state["numbers"]], "masks": state["masks"]})


def _check_mask(key, mask: torch.Tensor, data: TensorDictBase, count: int) -> None:
    shape = (*data.batch_size, count)
    if mask.dtype != torch.bool or tuple(mask.shape) != shape:
        raise ValueError(f"{key} must be bool of shape {shape}, found {mask.dtype} of {tuple(mask.shape)}")
    some = mask.any(dim=-1)
    if key != "action_mask":
        some = some | data["next", "terminated"].bool().reshape(some.shape)
    if not some.all():
        raise ValueError(f"{key} of transitions {(~some).nonzero().tolist()[:10]} allows no action")
