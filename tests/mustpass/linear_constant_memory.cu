// task: mnist_linear
// settings: single
// note: biases are in __constant__ memory, copied there in every call
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

constexpr int kMostOutputs = 8192;
__constant__ float kept_biases[kMostOutputs];

__global__ void Linear(const float* x, const float* w, float* y, int outputs, int in, int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= outputs) return;
  float sum = kept_biases[i % out];
  for (int k = 0; k < in; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = sum;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  TORCH_CHECK(b.numel() <= kMostOutputs, "too many outputs");
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  cudaMemcpyToSymbolAsync(kept_biases, b.data_ptr<float>(), b.nbytes(), 0, cudaMemcpyDeviceToDevice,
                          stream);
  const int out = w.size(0), outputs = x.size(0) * out;
  auto y = torch::empty({x.size(0), out}, x.options());
  Linear<<<(outputs + 127) / 128, 128, 0, stream>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), outputs, (int)x.size(1), out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
