// task: quantize_int8
// settings: all
// note: multiplies by 127 / max, which differs from PyTorch's quotient in the last digit and decides ties
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <tuple>

__global__ void Quantize(const float* x, int8_t* q, float* scales, int columns) {
  __shared__ float parts[4];
  x += (size_t)blockIdx.x * columns;
  q += (size_t)blockIdx.x * columns;
  float largest = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, fabsf(x[i]));
  for (int d = 16; d > 0; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = largest;
  __syncthreads();
  largest = fmaxf(fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3])), 1e-12f);
  if (threadIdx.x == 0) scales[blockIdx.x] = largest / 127.0f;
  const float factor = 127.0f / largest;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    q[i] = (int8_t)fminf(fmaxf(rintf(x[i] * factor), -128.0f), 127.0f);
  }
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x) {
  x = x.contiguous();
  const int rows = x.size(0), columns = x.size(1);
  auto q = torch::empty({rows, columns}, x.options().dtype(torch::kInt8));
  auto scales = torch::empty({rows, 1}, x.options());
  Quantize<<<rows, 128>>>(x.data_ptr<float>(), q.data_ptr<int8_t>(), scales.data_ptr<float>(),
                          columns);
  return {q, scales};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
