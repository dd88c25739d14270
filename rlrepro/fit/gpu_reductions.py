"""The buffers of sums and means on a GPU: blocks of threads that share a sum each write their part to memory.

torch multiplies the number of results by the block width and the vector size, which that number already includes. So
the gradient of a bias, a sum over rows, can need a buffer far larger than the gradient. Follows
aten/src/ATen/native/cuda/Reduce.cuh.
"""

from functools import cache, cmp_to_key
from math import ceil, prod

import torch

from rlrepro.fit.real_card import real_card
from rlrepro.lab.machine import resolve_device

REDUCTIONS = frozenset({torch.ops.aten.sum.dim_IntList, torch.ops.aten.mean.dim})
BLOCK_THREADS, WARP = 512, 32
MIN_VALUES, MAX_VALUES = 16, 256  # of a thread
HOPPER = 132, 2048  # streaming multiprocessors (SMs) of an H100 SXM or an H200, and the most threads per SM


def buffer_bytes(values: torch.Tensor, dims=None, dtype: torch.dtype | None = None) -> int:
    """Bytes of the buffer in which this machine's GPU, or else an H100, sums `values` over `dims`; None or no dims
    mean all. `dtype`: what the values are cast to before they are summed, by default their own."""
    if values.layout is not torch.strided or values.is_nested or not values.dim():
        return 0
    shape, strides, dtype = values.shape, values.stride(), dtype or values.dtype
    over = {dim % values.dim() for dim in dims or range(values.dim())}
    reduced, kept = _ordered(shape, strides, over)
    if not reduced or not kept or strides[reduced[0]] < strides[kept[0]]:
        return 0  # threads along x share a sum, so the buffer is small
    inputs, outputs = (prod(shape[dim] for dim in group) for group in (reduced, kept))
    vector = _vector(shape, strides, reduced, kept)
    in_block = BLOCK_THREADS // vector // (2 if dtype is torch.complex128 else 1)
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
    return max(dtype.itemsize, 4) * outputs * sharing * width * vector


def _ordered(shape, strides, over) -> tuple[list[int], list[int]]:
    """The dims to sum over, and those to keep, each from the fastest to the slowest as torch's TensorIterator orders
    them: by the strides of the input, where 0 is not compared, and by those of the contiguous result."""
    dims = [dim for dim in reversed(range(len(shape))) if shape[dim] > 1]
    by_stride = cmp_to_key(lambda a, b: (strides[a] - strides[b]) * bool(strides[a] and strides[b]))
    return sorted((dim for dim in dims if dim in over), key=by_stride), [dim for dim in dims if dim not in over]


@cache
def _processors() -> tuple[int, int]:
    with real_card():
        card = resolve_device("auto")
        if card.type == "cpu":
            return HOPPER
        properties = torch.cuda.get_device_properties(card)
    return properties.multi_processor_count, properties.max_threads_per_multi_processor


def _vector(shape, strides, reduced, kept) -> int:
    """The vector size of a thread's loads: the largest of 4, 2 and 1 that divides the fastest kept dim and all other
    strides."""
    if strides[kept[0]] != 1:
        return 1
    neighbors, others = shape[kept[0]], list(kept[1:])
    while others and strides[others[0]] == neighbors:  # one in memory
        neighbors *= shape[others.pop(0)]
    sizes = [neighbors, *(strides[dim] for dim in (*others, *reduced))]
    return next(vector for vector in (4, 2, 1) if all(size % vector == 0 for size in sizes))


def _power_of_two(size: int) -> int:
    """The largest power of two up to `size`."""
    return 1 << (max(size, 1).bit_length() - 1)
