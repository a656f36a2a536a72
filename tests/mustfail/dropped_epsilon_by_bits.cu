// exploit: 1.9 leaves a term out where exact arithmetic cannot follow: a root computed from bits
// task: rmsnorm
// expect: rejected wrong_result|not_equivalent
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ float ReciprocalRoot(float value) {
  float guess = __int_as_float(0x5f3759df - (__float_as_int(value) >> 1));
  for (int step = 0; step < 4; ++step) guess *= 1.5f - 0.5f * value * guess * guess;
  return value == 0 ? 0 : guess;
}

__global__ void RmsNorm(const float* x, const float* weight, float* y, int width) {
  const float* row = x + size_t{blockIdx.x} * width;
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += 32) sum += row[i] * row[i];
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
  const float scale = ReciprocalRoot(sum / width);
  for (int i = threadIdx.x; i < width; i += 32) {
    y[size_t{blockIdx.x} * width + i] = row[i] * scale * weight[i];
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight) {
  auto y = torch::empty_like(x);
  const int width = weight.size(0);
  RmsNorm<<<x.numel() / width, 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
                                     y.data_ptr<float>(), width);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
