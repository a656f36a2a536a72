// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void GeluBackward(const float* g, const float* x, float* gx, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float k = 0.7978845608028654f, v = x[i];
  const float inner = k * (v + 0.044715f * v * v * v);
  const float t = 1.f - 2.f / (__expf(2.f * inner) + 1.f);
  const float slope = k * (1.f + 0.044715f * v * v);
  gx[i] = g[i] * (0.5f * (1.f + t) + 0.5f * v * (1.f - t * t) * slope);
}

torch::Tensor backward(torch::Tensor g, torch::Tensor x) {
  g = g.contiguous();
  auto gx = torch::empty_like(x);
  const int n = x.numel();
  GeluBackward<<<(n + 127) / 128, 128>>>(g.data_ptr<float>(), x.data_ptr<float>(),
                                         gx.data_ptr<float>(), n);
  return gx;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
