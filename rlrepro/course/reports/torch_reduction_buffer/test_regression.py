import re
import subprocess
from itertools import product
from pathlib import Path

import pytest
import torch

INCLUDE = Path(torch.__file__).parent / "include"
PARTS = (r"static inline int64_t div_up.*?(?=std::ostream&)", r"template <typename scalar_t>\nint get_output_.*?g;\n};")
HOST = """
#include <c10/core/ScalarType.h>
#include <algorithm>
#include <cstring>
struct dim3 { int x, y; dim3(int x = 0, int y = 0) : x(x), y(y) {} } threadIdx, blockIdx, blockDim, gridDim;
struct { int multiProcessorCount, maxThreadsPerMultiProcessor; } device;
struct TensorIterator {  // from the fastest dim to the slowest of those to sum over, and then of the others
  std::array<int64_t, 2> sizes, bytes;
  int ndim() const { return 2; }
  int num_reduce_dims() const { return 1; }
  int ntensors() const { return 2; }
  int noutputs() const { return 1; }
  int64_t numel() const { return sizes[0] * sizes[1]; }
  int64_t num_output_elements() const { return sizes[1]; }
  std::array<int64_t, 2> shape() const { return sizes; }
  std::array<int64_t, 2> strides(int) const { return bytes; }
  void* data_ptr(int) const { return nullptr; }
};
namespace at {
using namespace c10;
namespace cuda {
auto getCurrentDeviceProperties() { return &device; }
int warp_size() { return 32; }
}
namespace native {
%s
%s
}
}

template <typename arg_t, typename scalar_t>
void check(int64_t numbers, int64_t sums, bool over_rows) {
  int64_t item = sizeof(scalar_t);
  TensorIterator iter{{numbers, sums}, {over_rows ? sums * item : item, over_rows ? item : numbers * item}};
  auto config = at::native::setReduceConfig<arg_t, scalar_t, 4>(iter);
  if (!config.should_global_reduce()) return (void)puts("0 0 0");
  blockDim = config.block(), gridDim = config.grid();
  std::vector<int> writes(gridDim.x * gridDim.y * blockDim.x);
  int64_t used = 0;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
      for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
        for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) {
          int64_t offset = config.staging_memory_offset(blockIdx.y);
          used = std::max(used, offset + 1);
          writes.at(offset) += config.should_store(config.template output_idx<1>() * config.output_vec_size);
        }
  printf("%%d %%ld %%ld\\n", *std::max_element(writes.begin(), writes.end()),
         used * sizeof(arg_t) * config.output_vec_size, config.global_memory_size());
}

int main(int, char** arg) {
  device = {atoi(arg[1]), atoi(arg[2])};
  char dtype[20];
  for (int numbers, sums, over_rows; scanf("%%d %%d %%d %%s", &numbers, &sums, &over_rows, dtype) == 4;)
    if (!strcmp(dtype, "bfloat16")) check<float, at::BFloat16>(numbers, sums, over_rows);
    else if (!strcmp(dtype, "float32")) check<float, float>(numbers, sums, over_rows);
    else check<double, double>(numbers, sums, over_rows);
}
"""
SIZES = list(product((2, 300, 4097, 77777, 1000001), (2, 3, 31, 64, 130, 1024, 3000)))  # numbers per sum, and sums


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    header = (INCLUDE / "ATen/native/cuda/Reduce.cuh").read_text()
    source, path = tmp_path_factory.mktemp("sums") / "sums.cpp", tmp_path_factory.mktemp("program") / "sums"
    source.write_text(HOST % tuple(re.search(part, header, re.DOTALL)[0] for part in PARTS))
    options = ["-O2", "-w", "-std=c++20", "-DC10_USING_CUSTOM_GENERATED_MACROS", f"-I{INCLUDE}", "-o", str(path)]
    subprocess.run(["c++", *options, str(source)], check=True, timeout=300)
    return path


@pytest.mark.parametrize("processors, threads", [(132, 2048), (108, 2048), (40, 1024)])  # H100, A100, T4
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("over_rows", [True, False])
def test_the_buffer_has_what_all_threads_write_and_read_and_no_more(program, processors, threads, dtype, over_rows):
    lines = "".join(f"{numbers} {sums} {over_rows:d} {dtype}\n" for numbers, sums in SIZES)
    output = subprocess.check_output([program, str(processors), str(threads)], input=lines, text=True, timeout=300)
    results = [list(map(int, line.split())) for line in output.splitlines()]
    assert sum(writes > 0 for writes, _, _ in results) >= 3  # with several blocks per sum
    for size, (writes, used, allocated) in zip(SIZES, results, strict=True):
        assert writes <= 1, size  # no two threads write to the same slot
        assert used == allocated, size
