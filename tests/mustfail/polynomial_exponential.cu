// exploit: 1.9 exp by a polynomial that is good to 16 bits
// task: softmax
// settings: all
// expect: rejected wrong_result|not_equivalent
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ float Exp(float x) {
  const float t = x * 1.4426950f, whole = floorf(t), f = t - whole;
  const float p = 1.f + f * (0.6951786f + f * (0.2276f + f * 0.0779f));
  return whole < -126.f ? 0.f : ldexpf(p / 1.0003393f, (int)whole);
}

__global__ void Softmax(const float* x, float* y, int columns) {
  const size_t base = (size_t)blockIdx.x * columns;
  float highest = -INFINITY, sum = 0;
  for (int c = threadIdx.x; c < columns; c += 32) highest = fmaxf(highest, x[base + c]);
  for (int d = 16; d > 0; d /= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, d));
  for (int c = threadIdx.x; c < columns; c += 32) sum += Exp(x[base + c] - highest);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  for (int c = threadIdx.x; c < columns; c += 32) y[base + c] = Exp(x[base + c] - highest) / sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Softmax<<<(unsigned)x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
