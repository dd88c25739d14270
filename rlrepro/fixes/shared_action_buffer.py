"""SharedActionBuffer: transitions that name their action by its row in one table, held once."""

from pathlib import Path

import numpy as np
import torch
from tensordict import TensorDictBase
from torchrl.data import LazyTensorStorage, ReplayBuffer, Storage

from .packed_masks import PackedMasks

MASKS = ("action_mask", ("next", "action_mask"))
MASKS_FILE = "action_masks.npz"


class SharedActionBuffer(ReplayBuffer):
    """torchrl's ReplayBuffer for large sets of discrete actions.

    capacity    transitions; the oldest are overwritten
    actions     (A, d) features of all actions, held once, on the device of the batches; None of a transition's
                memory goes into them
    device      of the batches and the table; None is where `actions` is
    storage     a storage of torchrl; None is LazyTensorStorage(capacity) on the CPU
    options     further arguments of ReplayBuffer (batch_size, sampler, ...), except `transform` and `prefetch`

    `extend` and `add` take transitions in TorchRL's form, with "action" a row of the table, and, where not every action
    is available, bools (A,) in "action_mask" for the state and ("next", "action_mask") for the next. The action is
    kept in 4 bytes, a mask as a number of 4 bytes: each different mask is held once, in bits, and one that allows
    everything not at all. `sample` gives the batch on `device`, with masks as bools (B, A). From the CPU to a GPU it is
    copied from pinned memory, without waiting.

    Raises ValueError for an action outside the table, a mask of another shape and a state without any action.
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
        if refused := {"transform", "prefetch"} & set(options):
            raise ValueError(f"SharedActionBuffer does not take {sorted(refused)}: transform batches after sampling")
        super().__init__(storage=storage or LazyTensorStorage(capacity), **options)
        self.actions = actions.to(device)
        self.masks = PackedMasks(len(actions), self._masks_in_use)

    def extend(self, data: TensorDictBase, **options) -> torch.Tensor:
        """Store transitions (n,). Returns where they lie."""
        with self._replay_lock:
            return super().extend(self._packed(data), **options)

    def add(self, data: TensorDictBase) -> int:
        """Store one transition. Returns where it lies."""
        with self._replay_lock:
            return super().add(self._packed(data.unsqueeze(0)).squeeze(0))

    def sample(self, batch_size: int | None = None, return_info: bool = False):
        """A batch on the device of the table; with `return_info` also what the sampler says of it."""
        with self._replay_lock:
            batch, info = super().sample(batch_size, return_info=True)
            batch = self._unpacked(batch)
        return (batch, info) if return_info else batch

    def state_dict(self) -> dict:
        return super().state_dict() | {"masks": self.masks.state_dict()}

    def load_state_dict(self, state_dict: dict) -> None:
        super().load_state_dict(state_dict)
        self.masks.load_state_dict(state_dict["masks"])

    def dumps(self, path) -> None:
        super().dumps(path)
        np.savez(Path(path) / MASKS_FILE, **self.masks.state_dict())

    def loads(self, path) -> None:
        super().loads(path)
        with np.load(Path(path) / MASKS_FILE) as state:
            self.masks.load_state_dict({"numbers": state["numbers"].tolist(), "masks": state["masks"]})

    def _packed(self, data: TensorDictBase) -> TensorDictBase:
        action, count = data["action"], len(self.actions)
        if action.is_floating_point() or action.dtype == torch.bool or action.shape != data.batch_size:
            raise ValueError(
                f"action must be a row of the table for each transition, whole numbers of shape "
                f"{tuple(data.batch_size)}; found {action.dtype} of {tuple(action.shape)}"
            )
        if len(outside := action[(action < 0) | (action >= count)]):
            raise ValueError(f"actions must be rows of the table, 0 to {count - 1}; found {outside[:10].tolist()}")
        packed = data.copy()  # the tensors are shared, the entries are not
        packed["action"] = action.to(torch.int32)
        masks = {key: mask for key in MASKS if (mask := data.get(key, None)) is not None}
        for key, mask in masks.items():
            _check_mask(key, mask, (len(data), count))
        if masks:  # all at once, so that none of them is forgotten before it is stored
            numbers = self.masks.put(torch.cat(list(masks.values()))).to(action.device).split(len(data))
            packed.update(dict(zip(masks, numbers, strict=True)))
        return packed

    def _unpacked(self, batch: TensorDictBase) -> TensorDictBase:
        device = self.actions.device
        masks = {key: batch.get(key, None) for key in MASKS}
        if device.type == "cuda" and (batch.device is None or batch.device.type == "cpu"):
            batch = batch.pin_memory()
        batch = batch.to(device, non_blocking=True)
        batch["action"] = batch["action"].long()
        for key, numbers in masks.items():
            if numbers is not None:
                batch[key] = self.masks.get(numbers, device)
        return batch

    def _masks_in_use(self) -> np.ndarray:
        if not len(self):
            return np.empty(0, np.int32)
        stored = self.storage[:]
        numbers = [stored.get(key, None) for key in MASKS]
        return np.concatenate([each.cpu().numpy().ravel() for each in numbers if each is not None] or [[]])


def _check_mask(key, mask: torch.Tensor, shape: tuple[int, int]) -> None:
    if mask.dtype != torch.bool or tuple(mask.shape) != shape:
        raise ValueError(f"{key} must be bool of shape {shape}, found {mask.dtype} of {tuple(mask.shape)}")
    if not (some := mask.any(dim=1)).all():
        raise ValueError(f"{key} of transitions {(~some).nonzero().flatten().tolist()[:10]} allows no action")
