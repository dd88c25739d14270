"""Computes with torch's Reduce.cuh, on the CPU, the buffers of an H100 for x.sum(0). On a GPU, measures them too."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

include = Path(torch.__file__).parent / "include"
header = (include / "ATen/native/cuda/Reduce.cuh").read_text()
PARTS = r"static inline int64_t div_up.*?(?=std::ostream&)", r"template <typename scalar_t>\nint get_output_.*?g;\n};"
PROGRAM = """
#include <algorithm>
#include <c10/core/ScalarType.h>
struct dim3 { int x, y; dim3(int x = 0, int y = 0) : x(x), y(y) {} } threadIdx, blockIdx, blockDim, gridDim;
struct { int multiProcessorCount = 132, maxThreadsPerMultiProcessor = 2048; } h100;
struct TensorIterator {
  int64_t rows, columns; int ndim() const { return 2; } int num_reduce_dims() const { return 1; }
  int ntensors() const { return 2; } int noutputs() const { return 1; } void* data_ptr(int) const { return nullptr; }
  int64_t numel() const { return rows * columns; } int64_t num_output_elements() const { return columns; }
  std::array<int64_t, 2> shape() const { return {rows, columns}; }
  std::array<int64_t, 2> strides(int) const { return {columns * 4, 4}; }
};
namespace at::cuda { auto getCurrentDeviceProperties() { return &h100; } int warp_size() { return 32; } }
namespace at { using namespace c10; namespace native { %s %s } }
int main(int, char** arg) {
  auto config = at::native::setReduceConfig<float, float, 4>({atoi(arg[1]), atoi(arg[2])});
  blockDim = config.block(), gridDim = config.grid(), threadIdx.x = blockDim.x - 1, blockIdx.x = gridDim.x - 1;
  int64_t used = config.staging_memory_offset(gridDim.y - 1) + 1;  // by the last thread of the last block
  printf("%%ld %%ld", config.global_memory_size(), used * config.element_size_bytes * config.output_vec_size);
}"""
with tempfile.TemporaryDirectory() as folder:
    path, program = f"{folder}/sums", PROGRAM % tuple(re.search(part, header, re.DOTALL)[0] for part in PARTS)
    options = ["-w", "-std=c++20", "-DC10_USING_CUSTOM_GENERATED_MACROS", f"-I{include}", "-xc++", "-", "-o", path]
    subprocess.run(["c++", *options], input=program, text=True, check=True, timeout=300)
    for rows, columns in ((16384, 64), (16384, 1024), (77777, 1024)):
        size, used = map(int, subprocess.check_output([path, str(rows), str(columns)], timeout=60).split())
        print(f"{rows:,} x {columns:,}: {4 * columns:,} bytes of sums, a buffer of {size:,} bytes, {used:,} in use")
        if torch.cuda.is_available():
            x, _ = torch.ones(rows, columns, device="cuda"), torch.cuda.reset_peak_memory_stats()
            x.sum(0)
            print(f"    on this GPU: {torch.cuda.max_memory_allocated() - x.nbytes:,} bytes")
sys.exit(size > used)
