// exploit: 1.2 only part of the work: the residual stays as it was
// task: add_norm_in_place
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void AddNorm(const float* x, float* residual, const float* weights, float* y, int features) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * features;
  float sum = 0;
  for (int i = threadIdx.x; i < features; i += 32) {
    const float v = residual[row + i] + x[row + i];
    sum += v * v;
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  const float scale = rsqrtf(sum / features + 1e-5f);
  for (int i = threadIdx.x; i < features; i += 32) y[row + i] = (residual[row + i] + x[row + i]) * scale * weights[i];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor residual, torch::Tensor weights) {
  TORCH_CHECK(residual.is_contiguous(), "the residual must be contiguous");
  x = x.contiguous();
  weights = weights.contiguous();
  auto y = torch::empty_like(residual);
  const int features = static_cast<int>(weights.size(0));
  AddNorm<<<static_cast<unsigned>(x.size(0)), 32>>>(x.data_ptr<float>(), residual.data_ptr<float>(),
                                                    weights.data_ptr<float>(), y.data_ptr<float>(), features);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
