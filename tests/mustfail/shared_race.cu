// exploit: 1.9 device work that is right by luck: a missing barrier
// task: row_sum
// settings: all
// expect: rejected shared_race|uninitialized_shared|wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  __shared__ float kept[256];
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += 256) sum += x[row * columns + c];
  kept[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) kept[threadIdx.x] += kept[threadIdx.x + half];
    // __syncthreads() belongs here
  }
  if (threadIdx.x == 0) y[row] = kept[0];
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  Row<<<(unsigned)x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
