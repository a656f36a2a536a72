// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void Sum(const float* x, double* sum, int n) {
  double mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    mine += double(x[i]) * x[i];
  }
  for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(~0u, mine, d);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
__global__ void Round(const double* sum, float* y, int n) { *y = float(*sum / n); }

torch::Tensor forward(torch::Tensor x) {
  const int n = x.numel();
  auto sum = torch::empty({1}, x.options().dtype(torch::kFloat64));
  auto y = torch::empty({}, x.options());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  Sum<<<16, 256, 0, stream>>>(x.data_ptr<float>(), sum.data_ptr<double>(), n);
  Round<<<1, 1, 0, stream>>>(sum.data_ptr<double>(), y.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
