// task: rmsnorm
// settings: all
// note: queries the device's properties once and keeps them; the block size depends on them
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

const cudaDeviceProp& Properties() {
  static const cudaDeviceProp properties = [] {
    cudaDeviceProp p;
    int device = 0;
    cudaGetDevice(&device);
    cudaGetDeviceProperties(&p, device);
    return p;
  }();
  return properties;
}

__global__ void RmsNorm(const float* x, const float* weight, float* y, int columns, float eps) {
  extern __shared__ float parts[];
  x += (size_t)blockIdx.x * columns;
  y += (size_t)blockIdx.x * columns;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += x[c] * x[c];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  const float scale = rsqrtf(parts[0] / columns + eps);
  for (int c = threadIdx.x; c < columns; c += blockDim.x) y[c] = x[c] * scale * weight[c];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
  const int columns = x.size(-1), rows = x.numel() / columns;
  const int threads = std::min(256, Properties().maxThreadsPerBlock);
  auto y = at::empty_like(x);
  RmsNorm<<<rows, threads, threads * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), columns, (float)eps);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, py::arg("x"), py::arg("weight"), py::arg("eps") = 1e-5);
}
