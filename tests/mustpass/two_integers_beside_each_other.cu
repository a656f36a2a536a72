// task: mnist_linear
// settings: single
// note: a structure of two integers that together look like an address of the process
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

struct Extent {
  int first, vocabulary;
};

__global__ void Linear(const float* x, const float* w, const float* b, float* y, Extent extent,
                       Extent shape, int batch) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x + extent.first;
  if (i >= batch * shape.vocabulary || shape.vocabulary > extent.vocabulary) return;
  const int in = shape.first, row = i / shape.vocabulary, column = i % shape.vocabulary;
  float sum = b[column];
  for (int k = 0; k < in; ++k) sum += x[row * in + k] * w[column * in + k];
  y[i] = sum;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  x = x.contiguous();
  w = w.contiguous();
  b = b.contiguous();
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  auto y = torch::empty({batch, out}, x.options());
  for (const int vocabulary : {31000, 32000, 32500}) {
    Linear<<<(batch * out + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
        Extent{0, vocabulary}, Extent{in, out}, batch);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
