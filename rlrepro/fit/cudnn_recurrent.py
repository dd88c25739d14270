"""What cuDNN's recurrent layers need on a GPU.

The reserve space, which a layer keeps for its backward pass, follows one formula in all measurements. cuDNN does not
document the size of its workspace. It was measured by `measure_recurrent`, and is fitted by least squares as the larger
of two linear functions of the sizes, which predicts it for other sizes.
"""

import json
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

import numpy as np
import torch

MEASURED = Path(__file__).with_name("cudnn_recurrent.json")
RESERVED = {"RNN": 1, "GRU": 6, "LSTM": 5}  # elements that a layer keeps for its backward pass, per output
RESERVED_BYTES = 256  # plus a constant
FEW_HIDDEN, MANY_HIDDEN = 64, 256  # from MANY_HIDDEN up, cuDNN's kernels need far less; between, nothing was measured
MIB, LARGE = 2**20, 16 * 2**20  # below MIB, the allocator's rounding dominates


@dataclass(frozen=True)
class RecurrentLayer:
    """A recurrent layer, with the sizes of the sequences that it reads. `training` is its mode."""

    kind: str  # RNN, GRU or LSTM
    dtype: torch.dtype
    layers: int
    directions: int
    hidden: int
    steps: int
    rows: int
    inputs: int
    training: bool = True
    dropout: float = 0.0

    @property
    def outputs(self) -> int:
        """The numbers that it returns for all steps."""
        return self.directions * self.hidden * self.steps * self.rows

    @property
    def reserve_bytes(self) -> int:
        """What it keeps from its forward pass to its backward pass, besides inputs and outputs. Dropout keeps a bit for
        each number that a layer passes to each direction of the next one."""
        if not self.training:
            return 0
        kept = RESERVED[self.kind] * self.layers + self.layers - 1
        masks = (self.layers - 1) * self.directions * ceil(self.outputs / 8) if self.dropout else 0
        return kept * self.outputs * self.dtype.itemsize + masks + RESERVED_BYTES

    @property
    def workspace_bytes(self) -> int:
        """What each of its passes needs while it runs."""
        column = "training" if self.training else "evaluation"
        one, two = (_planes(self.kind, self.dtype, self.directions, count, column) for count in (1, 2))
        features = _features(self.hidden, self.steps, self.rows, self.dtype.itemsize, self.inputs)
        predicted = ((one + (self.layers - 1) * (two - one)) @ features).max()
        drops = self.dropout and self.training and self.layers > 1
        copied = self.outputs * self.dtype.itemsize if drops and self.kind != "RNN" and self.directions == 1 else 0
        return copied + max(0, round(float(predicted)))


@cache
def _planes(kind: str, dtype: torch.dtype, directions: int, layers: int, column: str) -> np.ndarray:
    """Coefficients of two linear functions of the features, an array of shape (2, features); the larger one counts.
    The first is for inputs no wider than the hidden state."""
    group = {"kind": kind, "dtype": str(dtype).removeprefix("torch."), "layers": layers, "directions": directions}
    measured = [row for row in _measured() if group.items() <= row.items()]
    is_wide = np.array([row["inputs"] > row["hidden"] for row in measured])
    sizes = [(row["hidden"], row["steps"], row["rows"], dtype.itemsize, row["inputs"]) for row in measured]
    features = np.array([_features(*numbers) for numbers in sizes])
    values = np.array([row[column] for row in measured], dtype=float)
    relative = features / np.maximum(values, MIB)[:, None], values / np.maximum(values, MIB)
    planes = np.array([np.linalg.lstsq(*(x[rows] for x in relative), rcond=None)[0] for rows in (~is_wide, is_wide)])
    ratios = values / (features @ planes.T).max(1)
    return planes * max(1, ratios[values > LARGE].max())  # so that none of these is predicted too small


def _features(hidden: int, steps: int, rows: int, itemsize: int, inputs: int) -> np.ndarray:
    sequence, is_small = rows * steps, hidden < MANY_HIDDEN
    numbers = sequence * hidden, sequence * inputs, sequence, rows * hidden, hidden**2, hidden * inputs
    if_small = sequence * hidden, sequence, rows * hidden
    return np.array(
        [*(itemsize * number for number in numbers), MIB, *(itemsize * number * is_small for number in if_small)],
        dtype=float,
    )


@cache
def _measured() -> list[dict]:
    content = json.loads(MEASURED.read_text())
    return [dict(zip(content["columns"], row, strict=True)) for row in content["rows"]]
