// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void SoftmaxBackward(const float* g, const float* y, float* gx, int columns) {
  __shared__ float parts[32];
  const int64_t base = (int64_t)blockIdx.x * columns;
  float dot = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) dot += g[base + c] * y[base + c];
  for (int d = 16; d; d >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = dot;
  __syncthreads();
  dot = 0;
  for (int w = 0; w < 32; ++w) dot += parts[w];
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    gx[base + c] = y[base + c] * (g[base + c] - dot);
  }
}

torch::Tensor backward(torch::Tensor g, torch::Tensor y) {
  g = g.contiguous();
  y = y.contiguous();
  auto gx = torch::empty_like(y);
  SoftmaxBackward<<<(unsigned)y.size(0), 128>>>(g.data_ptr<float>(), y.data_ptr<float>(),
                                                gx.data_ptr<float>(), (int)y.size(1));
  return gx;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
