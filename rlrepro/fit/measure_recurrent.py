"""Measures on this machine's GPU what recurrent layers allocate there, and writes the file that `gpu_recurrent` reads:
`python -m rlrepro.fit.measure_recurrent`."""

import itertools
import json

import torch
from torch import nn

from rlrepro.fit.gpu_recurrent import INPUTS, MEASURED

KINDS, LAYERS, HIDDEN, STEPS, ROWS = ("RNN", "GRU", "LSTM"), (1, 2), (16, 64), (4, 16, 48), (37, 512, 4096, 9000)
DTYPES = ("float32", "float64", "bfloat16", "float16")
COLUMNS = ("kind", "layers", "hidden", "steps", "rows", "dtype", "reserve", "training", "inference", "backward")


def measured(kind: str, layers: int, hidden: int, steps: int, rows: int, dtype: str) -> tuple[int, ...]:
    """Bytes: the reserve; what a forward pass needs on top of its results in training, and without gradients; what a
    backward pass needs with its results."""
    options = {"device": "cuda", "dtype": getattr(torch, dtype)}
    layer = getattr(nn, kind)(INPUTS, hidden, num_layers=layers, batch_first=True, **options)
    sequence = torch.randn(rows, steps, INPUTS, requires_grad=True, **options)
    state_bytes = (2 if kind == "LSTM" else 1) * layers * rows * hidden * options["dtype"].itemsize  # saved zeros

    with torch.no_grad():
        _, inference, held = _peak_of(lambda: layer(sequence)[0])
    output, training, kept = _peak_of(lambda: layer(sequence)[0])
    gradient = torch.ones_like(output)
    output.backward(gradient, retain_graph=True)  # creates the gradients
    backward = _peak_of(lambda: output.backward(gradient))[1]
    return kept - output.nbytes - state_bytes, training - kept, inference - held, backward


def _peak_of(call) -> tuple[object, int, int]:
    """The result of a call, after a first one; its peak and what it leaves in use, in bytes above the level before."""
    if not torch.is_grad_enabled():
        call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    return result, torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before


def main() -> None:
    sizes = itertools.product(KINDS, LAYERS, HIDDEN, STEPS, ROWS, DTYPES)
    rows = [(*size, *measured(*size)) for size in sizes]
    gpu = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
    MEASURED.write_text(json.dumps({"measured_on": gpu, "columns": COLUMNS, "rows": rows}))


if __name__ == "__main__":
    main()
