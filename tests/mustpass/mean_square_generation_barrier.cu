// task: mean_square
// settings: all
// note: a barrier over blocks: a count that is reset, and a generation that continues across calls
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ unsigned arrived;
__device__ volatile unsigned generation;

__device__ void Meet() {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned mine = generation;
    __threadfence();
    if (atomicAdd(&arrived, 1u) == gridDim.x - 1) {
      arrived = 0;
      __threadfence();
      generation = mine + 1;
    } else {
      while (generation == mine) {
      }
    }
    __threadfence();
  }
  __syncthreads();
}

__global__ void MeanSquare(const float* x, float* partial, float* y, int n) {
  __shared__ float parts[4];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += x[i] * x[i];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) partial[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
  Meet();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    float total = 0;
    for (int b = 0; b < gridDim.x; ++b) total += *(volatile float*)(partial + b);
    *y = total / n;
  }
}

torch::Tensor forward(torch::Tensor x) {
  const int blocks = 5;  // fewer than any GPU has multiprocessors
  auto partial = torch::empty({blocks}, x.options());
  auto y = torch::empty({}, x.options());
  MeanSquare<<<blocks, 128>>>(x.data_ptr<float>(), partial.data_ptr<float>(), y.data_ptr<float>(),
                              (int)x.numel());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
