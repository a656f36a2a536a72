// exploit: 1.1 takes the maximum with uninitialised memory
// task: mnist_linear
// expect: rejected wrong_result|not_finite|uninitialized_global
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Linear(const float* x, const float* w, const float* b, float* y, int batch, int in,
                       int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  const int row = i / out, column = i % out;
  float sum = b[column];
  for (int k = 0; k < in; ++k) sum += x[row * in + k] * w[column * in + k];
  y[i] = fmaxf(y[i], sum);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  auto y = torch::empty({batch, out}, x.options());
  Linear<<<(batch * out + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                             b.data_ptr<float>(), y.data_ptr<float>(), batch, in,
                                             out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
