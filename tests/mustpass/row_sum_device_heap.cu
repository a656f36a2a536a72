// task: row_sum
// settings: multi
// device: emu
// note: threads get scratch memory from the heap of device code, and free it
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void RowSum(const float* x, float* y, int columns) {
  __shared__ float* parts;
  const float* row = x + (size_t)blockIdx.x * columns;
  if (threadIdx.x == 0) parts = (float*)malloc(blockDim.x * sizeof(float));
  __syncthreads();
  if (parts == nullptr) __trap();
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  y[blockIdx.x] = parts[0];
  free(parts);
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  RowSum<<<(int)x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
