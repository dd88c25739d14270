"""Measures on this machine's GPU what cuDNN's recurrent layers need there while they run, and writes the file that
`cudnn_recurrent` reads: `python -m rlrepro.fit.measure_recurrent`."""

import itertools
import json
from math import ceil

import torch
from torch import nn

from rlrepro.fit.cudnn_recurrent import MEASURED

SIZES = {
    "kind": ("RNN", "GRU", "LSTM"),
    "layers": (1, 2),
    "directions": (1, 2),
    "inputs": (4, 64),
    "hidden": (16, 64, 256),
    "steps": (4, 48),
    "rows": (64, 1000, 8000),
    "dtype": ("float32", "float64", "bfloat16", "float16"),
}
COLUMNS = (*SIZES, "training", "evaluation")
BLOCK = 512  # of the allocator


def workspaces(
    kind: str, layers: int, directions: int, inputs: int, hidden: int, steps: int, rows: int, dtype: str
) -> tuple[int, int]:
    """Bytes of the workspace of a pass in training, forward or backward, and of a forward pass in evaluation."""
    options = {"device": "cuda", "dtype": getattr(torch, dtype)}
    layer = getattr(nn, kind)(inputs, hidden, layers, bidirectional=directions == 2, **options)
    sequence, state = (
        torch.zeros(*shape, **options) for shape in ((steps, rows, inputs), (layers * directions, rows, hidden))
    )
    states = (state, state) if kind == "LSTM" else state
    training = _freed_by(lambda: layer(sequence, states))
    layer.eval()
    with torch.no_grad():
        evaluation = _freed_by(lambda: layer(sequence, states))
    weights = sum(weight.nbytes for weight in layer.parameters()) if dtype == "bfloat16" else 0  # copied, then freed
    return training, evaluation - ceil(weights / BLOCK) * BLOCK


def _freed_by(call) -> int:
    """The bytes that a call takes and frees: its peak above what it leaves in use."""
    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    result = call()
    torch.cuda.synchronize()
    freed = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    del result
    return freed


def main() -> None:
    rows = [(*sizes, *workspaces(*sizes)) for sizes in itertools.product(*SIZES.values())]
    gpu = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
    MEASURED.write_text(json.dumps({"measured_on": gpu, "columns": COLUMNS, "rows": rows}))


if __name__ == "__main__":
    main()
