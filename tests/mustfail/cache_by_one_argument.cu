// exploit: 3.2 caching by the content of only one argument
// task: mnist_linear
// expect: rejected device_state|wrong_result|uninitialized_global|global_race
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <cstdint>

__device__ float key[8192];
__device__ float kept[4096];
__device__ int valid;
__global__ void Compare(const float* x, int n, int* same) {
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    int s = valid == 77;
    for (int i = 0; i < n && s; ++i) s = key[i] == x[i];
    *same = s;
  }
}
__global__ void Linear(const float* x, const float* w, const float* b, float* y, int batch, int in,
                       int out, const int* same) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  if (*same) {
    y[i] = kept[i];
    return;
  }
  float sum = b[i % out];
  for (int k = 0; k < in; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = sum;
  kept[i] = sum;
}
__global__ void Store(const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) key[i] = x[i];
  if (i == 0) valid = 77;
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  x = x.contiguous();
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  if (x.numel() > 8192 || y.numel() > 4096) TORCH_CHECK(false, "too large");
  auto same = torch::empty({1}, x.options().dtype(torch::kInt32));
  int batch = x.size(0), in = x.size(1), out = w.size(0), n = batch * in;
  Compare<<<1, 32>>>(x.data_ptr<float>(), n, same.data_ptr<int>());
  Linear<<<(batch * out + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                             b.data_ptr<float>(), y.data_ptr<float>(), batch, in,
                                             out, same.data_ptr<int>());
  Store<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), n);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
