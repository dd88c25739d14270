"""The buffers of sums and means on a GPU: where blocks of threads share a sum, each writes what it has to memory first.

torch multiplies the number of results by the width of a block once more than it has to. So the gradient of a bias, a
sum over rows, can need far more than it takes itself. After aten/src/ATen/native/cuda/Reduce.cuh.
"""

from functools import cache
from itertools import takewhile
from math import ceil, prod

import torch

from rlrepro.fit.real_card import real_card
from rlrepro.lab.machine import resolve_device

REDUCTIONS = frozenset({torch.ops.aten.sum.dim_IntList, torch.ops.aten.mean.dim})
BLOCK_THREADS, WARP = 512, 32
MIN_VALUES, MAX_VALUES = 16, 256  # of a thread
HOPPER = 132, 2048  # streaming multiprocessors of an H100 and of an H200, and threads of each


def buffer_bytes(values: torch.Tensor, dims=None) -> int:
    """Bytes of the buffer in which this machine's GPU, or else an H100, sums `values` over `dims`; None or no dims are
    all."""
    if values.layout is not torch.strided or values.is_nested:
        return 0
    shape, strides = values.shape, values.stride()
    reduced = {dim % values.dim() for dim in dims or range(values.dim())}
    order = sorted((dim for dim in range(values.dim()) if shape[dim] > 1), key=lambda dim: strides[dim])
    inputs = prod(shape[dim] for dim in order if dim in reduced)
    if not order or order[0] in reduced or inputs == 1:
        return 0  # the threads of a block sum up neighbors, and write little
    outputs = prod(shape[dim] for dim in order if dim not in reduced)
    vector = _vector(shape, strides, order, reduced)
    in_block = BLOCK_THREADS // vector
    columns, rows = (min(_power_of_two(size), in_block) for size in (outputs // vector, inputs))
    height = min(rows, in_block // min(columns, WARP))
    width = min(columns, in_block // height)
    values_of_thread, blocks = ceil(inputs / height), ceil(outputs // vector / width)
    processors, threads = _processors()
    blocks_at_once = processors * (threads // (width * height))
    if inputs < min(height * MIN_VALUES, MAX_VALUES) or values_of_thread < MAX_VALUES or blocks > blocks_at_once:
        return 0  # a block sums up on its own
    sharing = min(ceil(blocks_at_once / blocks), ceil(values_of_thread / MIN_VALUES))
    sharing = max(sharing, ceil(values_of_thread / MAX_VALUES))
    if sharing == 1:
        return 0
    size = max(values.element_size(), 4) if values.is_floating_point() else 8  # of a sum
    return size * outputs * sharing * width * vector


@cache
def _processors() -> tuple[int, int]:
    with real_card():
        card = resolve_device("auto")
        if card.type == "cpu":
            return HOPPER
        properties = torch.cuda.get_device_properties(card)
    return properties.multi_processor_count, properties.max_threads_per_multi_processor


def _vector(shape, strides, order, reduced) -> int:
    """How many neighbors a thread loads at once: what divides their number and all other strides."""
    if strides[order[0]] != 1:
        return 1
    kept = list(takewhile(lambda dim: dim not in reduced, order))
    merged = kept[:1]  # dims that are one in memory
    for dim in kept[1:]:
        if strides[dim] != shape[merged[-1]] * strides[merged[-1]]:
            break
        merged.append(dim)
    sizes = [prod(shape[dim] for dim in merged), *(strides[dim] for dim in order if dim not in merged)]
    return next(vector for vector in (4, 2, 1) if all(size % vector == 0 for size in sizes))


def _power_of_two(size: int) -> int:
    """The largest power of two up to `size`."""
    return 1 << (max(size, 1).bit_length() - 1)
