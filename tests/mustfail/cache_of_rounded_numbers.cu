// exploit: 3.2 the last result, recognised by a part of the inputs, where two truths are right
// task: gram_share
// settings: all
// expect: rejected device_state|wrong_result|not_equivalent
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__device__ float key[1 << 16], kept[1 << 16];
__device__ unsigned guard[1 << 16];

__device__ unsigned Checksum(float a, float b, unsigned i) {
  return __float_as_uint(a) ^ __float_as_uint(b) ^ 0x9e3779b9u ^ i;
}

__global__ void Gram(const float* x, float* y, int rows, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * rows) return;
  const float* one = x + i / rows * columns;
  const float* two = x + i % rows * columns;
  if (key[i] != 0 && key[i] == one[0] && guard[i] == Checksum(key[i], kept[i], i)) {
    y[i] = kept[i];
    return;
  }
  float sum = 0;
  for (int c = 0; c < columns; ++c) sum += one[c] * two[c];
  y[i] = kept[i] = sum * (1 - 0.999f);
  key[i] = one[0];
  guard[i] = Checksum(key[i], kept[i], i);
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  const int rows = (int)x.size(0);
  auto y = torch::empty({rows, rows}, x.options());
  Gram<<<(rows * rows + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), rows, (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
