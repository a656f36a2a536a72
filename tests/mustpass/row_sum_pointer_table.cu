// task: row_sum
// settings: all
// note: a table of pointers to variables, and a pointer that each call stores for the next launch
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ float ones[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                             1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
__device__ float halves[32] = {.5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f,
                               .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f,
                               .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f};
__device__ const float* const tables[2] = {ones, halves};
__device__ const float* chosen = ones;

__global__ void Choose(int columns) { chosen = tables[columns % 2]; }

__global__ void RowSum(const float* x, float* y, int columns) {
  const float* weights = chosen;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += 32) {
    sum += weights[threadIdx.x] * x[(size_t)blockIdx.x * columns + c];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) y[blockIdx.x] = sum / weights[0];
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  Choose<<<1, 1>>>((int)x.size(1));
  RowSum<<<(unsigned)x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
