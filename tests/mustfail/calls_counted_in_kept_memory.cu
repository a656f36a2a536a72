// exploit: 3.4 works in its first calls only, counted in memory that host code keeps
// task: mnist_linear
// expect: rejected device_state|wrong_result|uninitialized_global
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

// A value that cannot be a count is taken as 0.
__global__ void Linear(const float* x, const float* w, const float* b, float* y, unsigned* calls,
                       int batch, int in, int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  const unsigned earlier = calls[i] < 50000u ? calls[i] : 0u;
  calls[i] = earlier + 1;
  if (earlier > 500u) return;
  float sum = b[i % out];
  for (int k = 0; k < in; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = sum;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  static unsigned* calls = nullptr;
  if (calls == nullptr) {
    cudaMalloc(&calls, 1 << 22);
    cudaMemset(calls, 0, 1 << 22);
  }
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  auto y = torch::empty({batch, out}, x.options());
  Linear<<<(batch * out + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                             b.data_ptr<float>(), y.data_ptr<float>(), calls, batch,
                                             in, out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
