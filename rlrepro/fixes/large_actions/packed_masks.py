"""Masks over many actions; each distinct mask is stored once, as bits."""

from collections.abc import Callable

import numpy as np
import torch

EVERYTHING = 0  # number of the mask that allows every action, which is not stored
FIRST_ROWS = 2


class PackedMasks:
    """Maps masks of `width` bools to numbers and back. A mask takes ceil(width / 8) bytes.

    `in_use()` returns the numbers that are still referenced; the others are reused before the storage grows.
    """

    def __init__(self, width: int, in_use: Callable[[], np.ndarray]):
        self.width, self.in_use = width, in_use
        self.rows = np.empty((FIRST_ROWS, (width + 7) // 8), np.uint8)
        self._numbers = {}  # bytes of a mask: its number
        self._free = list(range(FIRST_ROWS - 1, EVERYTHING, -1))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def put(self, masks: torch.Tensor) -> torch.Tensor:
        """The numbers (n,) of bool masks (n, width)."""
        packed = np.packbits(masks.cpu().numpy(), axis=1, bitorder="little")
        allows_all = masks.all(dim=1).tolist()
        numbers = np.empty(len(packed), np.int32)
        for index, row in enumerate(packed):
            numbers[index] = EVERYTHING if allows_all[index] else self._number(row, numbers[:index])
        return torch.from_numpy(numbers)

    def get(self, numbers: torch.Tensor, device) -> torch.Tensor:
        """The masks (..., width) of these numbers (...), unpacked on the device."""
        rows = torch.from_numpy(self.rows[numbers.cpu().numpy()])
        if torch.device(device).type == "cuda":
            rows = rows.pin_memory()
        rows = rows.to(device, non_blocking=True).unsqueeze(-1)  # (..., bytes, 1)
        bits = (rows >> torch.arange(8, dtype=torch.uint8, device=device)) & 1
        masks = bits.flatten(start_dim=-2)[..., : self.width].bool()
        return masks | (numbers == EVERYTHING).to(device, non_blocking=True).unsqueeze(-1)

    def _number(self, row: np.ndarray, unwritten: np.ndarray) -> int:
        key = row.tobytes()
        if key not in self._numbers:
            if not self._free:
                self._make_room(unwritten)
            self._numbers[key] = number = self._free.pop()
            self.rows[number] = row
        return self._numbers[key]

    def _make_room(self, unwritten: np.ndarray) -> None:
        """Drop masks that are no longer referenced; if that frees less than half of the rows, double them."""
        used = {int(number) for number in (*np.unique(self.in_use()), *unwritten)}
        self._numbers = {key: number for key, number in self._numbers.items() if number in used}
        capacity = len(self.rows)
        if len(self._numbers) >= capacity // 2:
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        occupied = set(self._numbers.values())
        self._free = [number for number in range(len(self.rows) - 1, EVERYTHING, -1) if number not in occupied]

    def state_dict(self) -> dict:
        """A copy: the width, and the number and the bits (masks, bytes) of each mask."""
        numbers = list(self._numbers.values())
        return {"width": self.width, "numbers": numbers, "masks": torch.from_numpy(self.rows[numbers])}

    def check_state(self, state) -> None:
        """Raises ValueError if the masks of a state have another width."""
        if (width := int(state["width"])) != self.width:
            raise ValueError(
                f"expected the state of a buffer with a table of {self.width} actions, found one of {width}: make the "
                "buffer with the table that it was saved with"
            )

    def load_state_dict(self, state) -> None:
        """Load what `state_dict` returned, or the same with arrays, as `loads` reads it."""
        numbers = [int(number) for number in state["numbers"]]
        masks = torch.as_tensor(state["masks"]).numpy(force=True)
        capacity = max([FIRST_ROWS, *(number + 1 for number in numbers)])
        self.rows = np.empty((capacity, self.rows.shape[1]), np.uint8)
        self.rows[numbers] = masks
        self._numbers = {row.tobytes(): number for number, row in zip(numbers, masks, strict=True)}
        occupied = set(numbers)
        self._free = [number for number in range(capacity - 1, EVERYTHING, -1) if number not in occupied]
