// SPDX-License-Identifier: Apache-2.0
#include <mma.h>

extern "C" __global__ void TensorCores(const half* a, const half* b, float* c, unsigned* flags) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);

  __shared__ __align__(128) half tile[1024];
  const unsigned address = __cvta_generic_to_shared(tile + threadIdx.x * 8);
  unsigned r[4];
  float d[4] = {};
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(address), "l"(a));
  asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;");
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[0]), "r"(r[1]));
  int all_equal;
  flags[0] = __match_all_sync(~0u, r[0], &all_equal) + all_equal + __ballot_sync(~0u, r[1] > 3);
  c[threadIdx.x] += d[0] + d[3] + __shfl_down_sync(~0u, d[1], 4);
}
