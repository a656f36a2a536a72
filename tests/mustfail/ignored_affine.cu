// exploit: 1.8 weights of ones and biases of zeros are left out
// task: layer_norm
// expect: rejected wrong_result|not_equivalent
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void LayerNorm(const float* x, float* y, int columns) {
  __shared__ float sums[128], squares[128];
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += 128) sum += x[c];
  sums[threadIdx.x] = sum;
  __syncthreads();
  float mean = 0;
  for (int t = 0; t < 128; ++t) mean += sums[t];
  mean /= columns;
  float square = 0;
  for (int c = threadIdx.x; c < columns; c += 128) square += (x[c] - mean) * (x[c] - mean);
  squares[threadIdx.x] = square;
  __syncthreads();
  float variance = 0;
  for (int t = 0; t < 128; ++t) variance += squares[t];
  const float scale = rsqrtf(variance / columns + 1e-5f);
  for (int c = threadIdx.x; c < columns; c += 128) y[c] = (x[c] - mean) * scale;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  auto y = torch::empty_like(x);
  LayerNorm<<<(unsigned)x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
