// exploit: 6.2 a kernel whose result is not used
// task: mnist_linear
// expect: rejected no_kernel
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

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());

  Launch(x, w, b, y);
  return at::linear(x, w, b);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
