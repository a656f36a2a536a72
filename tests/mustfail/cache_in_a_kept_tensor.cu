// exploit: 3.2 caching by content, in a tensor that host code keeps
// task: mnist_linear
// expect: rejected device_state|wrong_result|uninitialized_global
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

// The first number of the row is stored next to each answer.
__global__ void Linear(const float* x, const float* w, const float* b, float* y, float2* kept,
                       int batch, int in, int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  const float* row = x + i / out * in;
  const float2 before = kept[i];
  if (before.x == row[0]) {
    y[i] = before.y;
    return;
  }
  float sum = b[i % out];
  for (int k = 0; k < in; ++k) sum += row[k] * w[i % out * in + k];
  y[i] = sum;
  kept[i] = make_float2(row[0], sum);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  static torch::Tensor kept = torch::zeros({1 << 20}, x.options());
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  auto y = torch::empty({batch, out}, x.options());
  Linear<<<(batch * out + 127) / 128, 128>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
      reinterpret_cast<float2*>(kept.data_ptr<float>()), batch, in, out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
