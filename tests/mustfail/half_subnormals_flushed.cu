// exploit: 1.10 subnormal halves become zero
// task: softmax_half
// expect: rejected wrong_result|not_equivalent
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

/// Rounds a number of [0, 1] to a half: to the nearest, ties to even.
__device__ unsigned short Rounded(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return 0x7e00;
  if (value < 6.103515625e-5f) return 0;  // the smallest normal half
  return (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13;
}

__device__ float Highest(float a, float b) { return fmaxf(a, b); }
__device__ float Sum(float a, float b) { return a + b; }

__device__ float OfBlock(float value, float (*merge)(float, float)) {
  __shared__ float parts[4];
  for (int d = 16; d > 0; d /= 2) value = merge(value, __shfl_xor_sync(~0u, value, d));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = merge(merge(parts[0], parts[1]), merge(parts[2], parts[3]));
  __syncthreads();
  return value;
}

__global__ void Softmax(const at::Half* x, at::Half* y, int columns) {
  x += (size_t)blockIdx.x * columns;
  y += (size_t)blockIdx.x * columns;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, x[i]);
  top = OfBlock(top, Highest);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf((float)x[i] - top);
  sum = OfBlock(sum, Sum);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    y[i] = at::Half(Rounded(expf((float)x[i] - top) / sum), at::Half::from_bits());
  }
}

torch::Tensor forward(torch::Tensor x) {
  const int columns = x.size(-1), rows = x.numel() / columns;
  auto y = torch::empty_like(x);
  Softmax<<<rows, 128>>>(x.data_ptr<at::Half>(), y.data_ptr<at::Half>(), columns);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
