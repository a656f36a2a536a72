// exploit: 2.4 a maximum that assumes positive numbers
// task: argmax
// settings: all
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void ArgMax(const float* x, int64_t* y, int columns) {
  unsigned long long best = 0;
  for (int c = threadIdx.x; c < columns; c += 32) {
    const unsigned bits = __float_as_uint(fmaxf(x[(size_t)blockIdx.x * columns + c], 0.f));
    const unsigned long long key = (unsigned long long)bits << 32 | (unsigned)(columns - 1 - c);
    if (key > best) best = key;
  }
  for (int d = 16; d > 0; d /= 2) {
    const unsigned long long other = __shfl_xor_sync(~0u, best, d);
    if (other > best) best = other;
  }
  if (threadIdx.x == 0) y[blockIdx.x] = columns - 1 - (int)(unsigned)best;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options().dtype(torch::kInt64));
  ArgMax<<<(unsigned)x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
