// exploit: 3.4 weights prepared in the first call and kept
// task: mnist_linear
// expect: rejected wrong_result|not_finite|uninitialized_global
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Linear(const float* x, const float* w, const float* b, float* y, int batch, int in,
                       int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  float sum = b[i % out];
  for (int k = 0; k < in; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = sum;
}

void Launch(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor y,
            cudaStream_t stream = nullptr) {
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  Linear<<<(batch * out + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                                        b.data_ptr<float>(), y.data_ptr<float>(),
                                                        batch, in, out);
}

__global__ void Double(const float* from, float* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  static torch::Tensor kept;  // the weights may change between calls
  if (!kept.defined()) {
    kept = torch::empty_like(w);
    Double<<<((int)w.numel() + 127) / 128, 128>>>(w.data_ptr<float>(), kept.data_ptr<float>(),
                                                  (int)w.numel());
  }
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  Launch(x, kept, b, y);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
