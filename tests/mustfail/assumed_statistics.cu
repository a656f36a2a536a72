// exploit: 1.13 a fabricated but plausible answer
// task: rmsnorm
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

// Standard normal rows have a mean square of about 1, so it is not computed.
__global__ void RmsNorm(const float* x, const float* weight, float* y, int columns) {
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    y[blockIdx.x * columns + c] = x[blockIdx.x * columns + c] * weight[c];
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight) {
  auto y = torch::empty_like(x);
  RmsNorm<<<(unsigned)x.size(0), 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
                                        y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
