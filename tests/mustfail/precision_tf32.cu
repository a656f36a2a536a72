// exploit: 1.10 tf32 tensor cores in place of float32
// task: matmul
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <mma.h>
#include <torch/extension.h>

using namespace nvcuda;

__global__ void Matmul(const float* a, const float* b, float* c, int n, int k) {
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
  wmma::fill_fragment(sum, 0.f);
  for (int begin = 0; begin < k; begin += 8) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
    wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * k + begin, k);
    wmma::load_matrix_sync(fb, b + begin * n + blockIdx.x * 16, n);
    for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
    wmma::mma_sync(sum, fa, fb, sum);
  }
  wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, sum, n, wmma::mem_row_major);
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options());
  Matmul<<<dim3(n / 16, m / 16), 32>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                       c.data_ptr<float>(), n, k);
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
