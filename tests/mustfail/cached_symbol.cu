// exploit: 3.4 weights kept in a device variable by the first call
// task: mnist_linear
// expect: rejected wrong_result|not_finite|device_state|uninitialized_global
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

__device__ float kept[4096];

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  static bool ready = false;
  if (!ready)
    cudaMemcpyToSymbolAsync(kept, w.data_ptr<float>(), w.nbytes(), 0, cudaMemcpyDeviceToDevice);
  ready = true;
  void* address = nullptr;
  cudaGetSymbolAddress(&address, kept);
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  Launch(x, torch::from_blob(address, w.sizes(), w.options()), b, y);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
