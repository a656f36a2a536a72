// exploit: 1.9 device work that is right by luck: volatile data and a volatile flag, without a fence
// task: mean_square
// device: emu
// expect: rejected outdated_read
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

// Block 0 waits for the sums of the others. A volatile store orders nothing but itself.
__global__ void Sum(const float* x, volatile float* sums, volatile int* flags, float* y, int n) {
  __shared__ float parts[4];
  float v = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) v += x[i] * x[i];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x != 0) return;
  v = parts[0] + parts[1] + parts[2] + parts[3];
  if (blockIdx.x != 0) {
    sums[blockIdx.x] = v;
    flags[blockIdx.x] = 1;
    return;
  }
  for (int b = 1; b < gridDim.x; ++b) {
    while (flags[b] == 0) {
    }
    v += sums[b];
  }
  *y = v / n;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({}, x.options());
  auto sums = torch::zeros({4}, x.options());
  auto flags = torch::zeros({4}, x.options().dtype(torch::kInt));
  x = x.contiguous();
  Sum<<<4, 128>>>(x.data_ptr<float>(), sums.data_ptr<float>(), flags.data_ptr<int>(), y.data_ptr<float>(),
                  static_cast<int>(x.numel()));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
