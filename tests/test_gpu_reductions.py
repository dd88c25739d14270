"""Planned buffers of reductions are those of torch's own Reduce.cuh, compiled for the CPU, on an H100."""

import ctypes
import math
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from rlrepro.fit import gpu_reductions
from rlrepro.lab.limits import limit

COMPILE_SECONDS = 300.0
TORCH = Path(torch.__file__).parent
PARTS = (r"static inline int64_t div_up.*?(?=std::ostream&)", r"template <typename scalar_t>\nint get_output_.*?g;\n};")
SOURCE = """
#include <ATen/native/ReduceOpsUtils.h>
struct dim3 { int x, y; dim3(int x = 0, int y = 0) : x(x), y(y) {} } threadIdx, blockIdx, blockDim, gridDim;
namespace at::cuda {
static struct { int multiProcessorCount = 132, maxThreadsPerMultiProcessor = 2048; } h100;
static auto getCurrentDeviceProperties() { return &h100; }
static int warp_size() { return 32; }
}
namespace at::native { namespace {
%s
%s
}}
extern "C" long buffer(int ndim, const long* sizes, const long* strides, int ndims, const long* dims, int itemsize) {
  auto dtype = itemsize == 8 ? at::kDouble : itemsize == 4 ? at::kFloat : at::kBFloat16;
  auto values = at::empty_strided({sizes, (size_t)ndim}, {strides, (size_t)ndim}, at::TensorOptions(dtype));
  auto result = at::empty({0}, values.options());
  auto iter = at::native::make_reduction("sum", result, values, at::IntArrayRef(dims, ndims), false, dtype);
  return (itemsize == 8   ? at::native::setReduceConfig<double, double, 4>(iter)
          : itemsize == 4 ? at::native::setReduceConfig<float, float, 4>(iter)
                          : at::native::setReduceConfig<float, at::BFloat16, 4>(iter)).global_memory_size();
}
"""


@pytest.fixture(scope="module")
def torch_bytes(tmp_path_factory):
    """The bytes that torch allocates on an H100 for the sum of `values` over `dims`."""
    if not shutil.which("c++"):
        pytest.skip("no C++ compiler here")
    header = (TORCH / "include/ATen/native/cuda/Reduce.cuh").read_text()
    source = SOURCE % tuple(re.search(part, header, re.DOTALL)[0] for part in PARTS)
    library = tmp_path_factory.mktemp("sums") / "sums.so"
    command = ["c++", "-w", "-std=c++20", "-shared", "-fPIC", f"-I{TORCH}/include", "-xc++", "-", "-o", library]
    command += [f"-L{TORCH}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{TORCH}/lib"]
    subprocess.run(command, input=source, text=True, check=True, timeout=limit(COMPILE_SECONDS))
    function = ctypes.CDLL(library).buffer
    function.restype = ctypes.c_long

    def bytes_of(values, dims):
        arrays = [(ctypes.c_long * len(numbers))(*numbers) for numbers in (values.shape, values.stride(), dims)]
        return function(values.dim(), *arrays[:2], len(dims), arrays[2], values.itemsize)

    return bytes_of


def random_sum(rng):
    """A tensor of up to five dims, perhaps permuted, narrowed or expanded, and the dims to sum over."""
    dtype = rng.choice([torch.float64, torch.float32, torch.bfloat16])
    sizes = [rng.choice([1, 2, 3, 8, 31, 64, 128, 300, 1024, rng.randint(1, 5000)]) for _ in range(rng.randint(1, 5))]
    sizes[rng.randrange(len(sizes))] = rng.choice([4096, 16384, 77777, rng.randint(1, 300_000)])
    if math.prod(sizes) * dtype.itemsize > 2**31:  # torch splits such a sum
        return random_sum(rng)
    values, dim, ndim = torch.empty(sizes, dtype=dtype, device="meta"), rng.randrange(len(sizes)), len(sizes)
    change = rng.choice(["permute", "narrow", "expand", "none", "none"])
    if change == "permute":
        values = values.permute(rng.sample(range(ndim), ndim))
    elif change == "narrow":
        values = values.narrow(dim, 0, max(1, sizes[dim] // 2))
    elif change == "expand":
        values = values.narrow(dim, 0, 1).expand(sizes)
    return values, rng.sample(range(ndim), rng.randint(1, ndim))


@pytest.mark.slow
def test_large_buffers_are_those_of_torch_and_small_ones_may_be_planned_as_none(torch_bytes, monkeypatch):
    monkeypatch.setattr(gpu_reductions, "_processors", lambda: gpu_reductions.HOPPER)
    rng, buffers = random.Random(0), 0
    for _ in range(20_000):
        values, dims = random_sum(rng)
        size, planned = torch_bytes(values, dims), gpu_reductions.buffer_bytes(values, dims)
        assert planned in (size, 0) and size - planned <= 2**15, (values.shape, values.stride(), values.dtype, dims)
        buffers += planned > 0
    assert buffers > 1500
