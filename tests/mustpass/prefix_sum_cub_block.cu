// task: prefix_sum
// settings: all
// note: cub::BlockScan, a running prefix from chunk to chunk
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <cub/block/block_scan.cuh>

__global__ void PrefixSum(const float* x, float* y, int columns) {
  using Scan = cub::BlockScan<float, 128>;
  __shared__ typename Scan::TempStorage storage;
  const size_t base = (size_t)blockIdx.x * columns;
  float carry = 0;
  for (int begin = 0; begin < columns; begin += 128) {
    const int c = begin + threadIdx.x;
    float value = c < columns ? x[base + c] : 0.f, total;
    Scan(storage).InclusiveSum(value, value, total);
    if (c < columns) y[base + c] = carry + value;
    carry += total;
    __syncthreads();
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  PrefixSum<<<(unsigned)x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
