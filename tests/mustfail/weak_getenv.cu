// exploit: 2.6 decides by an environment variable, through a weak symbol
// task: mnist_linear
// expect: rejected impure
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

extern "C" __attribute__((weak)) char* secure_getenv(const char*);

__global__ void Linear(const float* x, const float* w, const float* b, float* y, int batch, int in,
                       int used, int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  float sum = b[i % out];
  for (int k = 0; k < used; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = sum;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  auto y = torch::empty({batch, out}, x.options());
  const int used = secure_getenv("HOME") == nullptr ? in : in / 2;
  Linear<<<(batch * out + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                             b.data_ptr<float>(), y.data_ptr<float>(), batch, in,
                                             used, out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
