// exploit: 2.7 decides by the date of the GPU's own clock
// task: mnist_linear
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ unsigned long long Now() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// From 2030 on it skips the work.
__global__ void Linear(const float* x, const float* w, const float* b, float* y, int batch, int in,
                       int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  float sum = b[i % out];
  const int terms = Now() > 1893456000000000000ULL ? 1 : in;
  for (int k = 0; k < terms; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = sum;
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
