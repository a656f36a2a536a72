// task: mnist_linear
// settings: single
// note: one block per SM takes outputs from a counter until none is left; queries SM count once
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void Linear(const float* x, const float* w, const float* b, float* y, int* next,
                       int outputs, int in, int out) {
  __shared__ int begin;
  for (;;) {
    if (threadIdx.x == 0) begin = atomicAdd(next, blockDim.x);
    __syncthreads();
    const int first = begin;
    __syncthreads();
    if (first >= outputs) return;
    const int i = first + threadIdx.x;
    if (i < outputs) {
      float sum = 0;
      for (int k = 0; k < in; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
      y[i] = sum + b[i % out];
    }
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  static const int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int out = w.size(0), outputs = x.size(0) * out;
  auto y = torch::empty({x.size(0), out}, x.options());
  auto next = torch::zeros({1}, x.options().dtype(torch::kInt32));
  Linear<<<sms, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
      next.data_ptr<int>(), outputs, (int)x.size(1), out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
