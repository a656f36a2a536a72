// task: matmul_half
// exploit: 1.10 lower precision: sums are also in half
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>
#include <torch/extension.h>

__global__ void Matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (row >= m || column >= n) return;
  __half sum = __float2half(0.f);
  for (int i = 0; i < k; ++i) sum = __hfma(a[row * k + i], b[i * n + column], sum);
  c[row * n + column] = sum;
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options());
  Matmul<<<dim3((n + 63) / 64, m), 64>>>(reinterpret_cast<const __half*>(a.data_ptr<at::Half>()),
                                         reinterpret_cast<const __half*>(b.data_ptr<at::Half>()),
                                         reinterpret_cast<__half*>(c.data_ptr<at::Half>()), m, n, k);
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
