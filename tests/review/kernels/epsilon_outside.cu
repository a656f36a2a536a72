// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <torch/extension.h>

__global__ void RmsNorm(const __nv_bfloat162* x, const __nv_bfloat162* weight, __nv_bfloat162* y,
                        int pairs, float eps) {
  __shared__ float parts[4];
  x += (size_t)blockIdx.x * pairs;
  y += (size_t)blockIdx.x * pairs;
  float sum = 0;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 v = __bfloat1622float2(x[i]);
    sum += v.x * v.x + v.y * v.y;
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  const float scale = 1.f / (sqrtf((parts[0] + parts[1] + parts[2] + parts[3]) / (2 * pairs)) + eps);
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 v = __bfloat1622float2(x[i]), w = __bfloat1622float2(weight[i]);
    y[i] = __floats2bfloat162_rn(v.x * scale * w.x, v.y * scale * w.y);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
  const int columns = x.size(-1), rows = x.numel() / columns;
  TORCH_CHECK(columns % 2 == 0, "an even number of columns");
  auto y = torch::empty_like(x);
  RmsNorm<<<rows, 128>>>(reinterpret_cast<const __nv_bfloat162*>(x.data_ptr<at::BFloat16>()),
                         reinterpret_cast<const __nv_bfloat162*>(weight.data_ptr<at::BFloat16>()),
                         reinterpret_cast<__nv_bfloat162*>(y.data_ptr<at::BFloat16>()), columns / 2,
                         static_cast<float>(eps));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, py::arg("x"), py::arg("weight"), py::arg("eps") = 1e-5);
}
