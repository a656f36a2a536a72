// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

using namespace nvcuda;

__global__ void Matmul(const half* a, const half* b, half* c, int m, int n, int k) {
  __shared__ __align__(32) half as[16][16], bs[16][16];
  __shared__ __align__(32) float cs[16][16];
  const int row0 = blockIdx.y * 16, column0 = blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.f);
  for (int begin = 0; begin < k; begin += 16) {
    for (int i = threadIdx.x; i < 256; i += 32) {
      const int row = row0 + i / 16, depth = begin + i % 16;
      as[i / 16][i % 16] = depth < k ? a[row * k + depth] : __float2half(0.f);
      const int level = begin + i / 16, column = column0 + i % 16;
      bs[i / 16][i % 16] = level < k && column < n ? b[level * n + column] : __float2half(0.f);
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::load_matrix_sync(fa, &as[0][0], 16);
    wmma::load_matrix_sync(fb, &bs[0][0], 16);
    wmma::mma_sync(sum, fa, fb, sum);
    __syncwarp();
  }
  wmma::store_matrix_sync(&cs[0][0], sum, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) {
    const int row = row0 + i / 16, column = column0 + i % 16;
    if (row < m && column < n) c[row * n + column] = __float2half_rn(cs[i / 16][i % 16]);
  }
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options());
  Matmul<<<dim3((n + 15) / 16, (m + 15) / 16), 32>>>(
      reinterpret_cast<const half*>(a.data_ptr<at::Half>()),
      reinterpret_cast<const half*>(b.data_ptr<at::Half>()),
      reinterpret_cast<half*>(c.data_ptr<at::Half>()), m, n, k);
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
