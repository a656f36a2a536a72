// task: gram_share
// settings: all
// note: one minus a number that was rounded to float32
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void Gram(const float* x, float* y, int rows, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * rows) return;
  const float* one = x + i / rows * columns;
  const float* two = x + i % rows * columns;
  float sum = 0;
  for (int c = 0; c < columns; ++c) sum += one[c] * two[c];
  y[i] = sum * (1 - 0.999f);
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
