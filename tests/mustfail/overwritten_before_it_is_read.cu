// exploit: overwrites host memory before an asynchronous copy has read it
// task: mnist_linear
// expect: rejected unordered_work
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

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

__global__ void Scale(float* y, const float* by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] *= *by;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  static float* pinned = nullptr;
  if (pinned == nullptr) cudaMallocHost(&pinned, sizeof(float));
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  auto scale = torch::empty({1}, x.options());
  const auto stream = at::cuda::getCurrentCUDAStream();
  *pinned = 1;
  cudaMemcpyAsync(scale.data_ptr<float>(), pinned, sizeof(float), cudaMemcpyHostToDevice, stream);
  *pinned = 2;
  Launch(x, w, b, y, stream);
  const int n = y.numel();
  Scale<<<(n + 127) / 128, 128, 0, stream>>>(y.data_ptr<float>(), scale.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
