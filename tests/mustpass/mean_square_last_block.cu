// task: mean_square
// settings: all
// note: the last block to finish adds the others' sums (fence and counter)
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void MeanSquare(const float* x, float* partial, unsigned* finished, float* y, int n) {
  __shared__ float parts[256];
  __shared__ bool last;
  float sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i] * x[i];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = parts[0];
    __threadfence();
    last = atomicAdd(finished, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    float total = 0;
    for (int b = 0; b < gridDim.x; ++b) total += *(volatile float*)(partial + b);
    *y = total / n;
  }
}

torch::Tensor forward(torch::Tensor x) {
  const int n = x.numel(), blocks = 8;
  auto partial = torch::empty({blocks}, x.options());
  auto finished = torch::zeros({1}, x.options().dtype(torch::kInt));
  auto y = torch::empty({}, x.options());
  MeanSquare<<<blocks, 256>>>(x.data_ptr<float>(), partial.data_ptr<float>(),
                              reinterpret_cast<unsigned*>(finished.data_ptr<int>()),
                              y.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
