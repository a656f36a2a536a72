// exploit: 3.5 only the first call finds the counter that it expects: no block resets it
// task: mean_square
// settings: all
// expect: rejected uninitialized_global|wrong_result|not_finite|unwritten_output
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void MeanSquare(const float* x, double* total, unsigned* finished, float* y, int n) {
  double sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += double(x[i]) * x[i];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x != 0) return;
  atomicAdd(total, sum);
  __threadfence();
  if (atomicAdd(finished, 1u) < gridDim.x - 1) return;
  __threadfence();
  *y = float(*(volatile double*)total / n);
}

torch::Tensor forward(torch::Tensor x) {
  static auto total = torch::zeros({1}, x.options().dtype(torch::kDouble));
  static auto finished = torch::zeros({1}, x.options().dtype(torch::kInt));
  auto y = torch::empty({}, x.options());
  MeanSquare<<<8, 32>>>(x.data_ptr<float>(), total.data_ptr<double>(),
                        reinterpret_cast<unsigned*>(finished.data_ptr<int>()), y.data_ptr<float>(),
                        (int)x.numel());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
