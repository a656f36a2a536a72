// Tensor-core kernels of the interpreter's tests; tensor.ptx is what nvcc makes of them:
//   nvcc -ptx -arch=sm_90 -O3 -std=c++17 tensor.cu
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

namespace {

/// d = 2 * a * b + c for one fragment: the doubling touches every element that a lane holds.
template <int M, int N, int K, class In, class Sum, class LayoutA, class LayoutB, class Stored>
__device__ void Multiply(const Stored* a, const Stored* b, const Sum* c, Sum* d, int lda, int ldb,
                         bool column_result) {
  wmma::fragment<wmma::matrix_a, M, N, K, In, LayoutA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, In, LayoutB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Sum> fc, fd;
  const auto layout = column_result ? wmma::mem_col_major : wmma::mem_row_major;
  const int ldc = column_result ? M : N;
  wmma::load_matrix_sync(fa, a, lda);
  wmma::load_matrix_sync(fb, b, ldb);
  wmma::load_matrix_sync(fc, c, ldc, layout);
  for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = fa.x[i] + fa.x[i];
  wmma::mma_sync(fd, fa, fb, fc);
  wmma::store_matrix_sync(d, fd, ldc, layout);
}

}  // namespace

#define WMMA(name, M, N, K, In, Sum, Stored)                                                     \
  extern "C" __global__ void name(const Stored* a, const Stored* b, const Sum* c, Sum* d,        \
                                  int layouts) {                                                 \
    using Row = wmma::row_major;                                                                 \
    using Col = wmma::col_major;                                                                 \
    const bool column = (layouts & 4) != 0;                                                      \
    switch (layouts & 3) {                                                                       \
      case 0:                                                                                    \
        Multiply<M, N, K, In, Sum, Row, Row>(a, b, c, d, K, N, column);                          \
        break;                                                                                   \
      case 1:                                                                                    \
        Multiply<M, N, K, In, Sum, Col, Row>(a, b, c, d, M, N, column);                          \
        break;                                                                                   \
      case 2:                                                                                    \
        Multiply<M, N, K, In, Sum, Row, Col>(a, b, c, d, K, K, column);                          \
        break;                                                                                   \
      default:                                                                                   \
        Multiply<M, N, K, In, Sum, Col, Col>(a, b, c, d, M, K, column);                          \
    }                                                                                            \
  }

WMMA(wmma_f16_f32, 16, 16, 16, half, float, half)
WMMA(wmma_f16_f16, 16, 16, 16, half, half, half)
WMMA(wmma_wide_f16, 8, 32, 16, half, float, half)
WMMA(wmma_tall_f16, 32, 8, 16, half, half, half)
WMMA(wmma_bf16, 16, 16, 16, __nv_bfloat16, float, __nv_bfloat16)
WMMA(wmma_wide_bf16, 8, 32, 16, __nv_bfloat16, float, __nv_bfloat16)
WMMA(wmma_tall_bf16, 32, 8, 16, __nv_bfloat16, float, __nv_bfloat16)
WMMA(wmma_tf32, 16, 16, 8, wmma::precision::tf32, float, float)
WMMA(wmma_f64, 8, 8, 4, double, double, double)
WMMA(wmma_s8, 16, 16, 16, signed char, int, signed char)
WMMA(wmma_wide_u8, 8, 32, 16, unsigned char, int, unsigned char)
WMMA(wmma_tall_s8, 32, 8, 16, signed char, int, signed char)

/// c[m][n] = a[m][k] * b[k][n] for bf16 with one warp to a 16 x 16 tile: cp.async into two buffers,
/// ldmatrix, mma.sync. One block of 4 warps makes 32 x 32.
extern "C" __global__ void gemm_pipelined(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c,
                                          int n, int k, int forget) {
  constexpr int kTile = 32, kPitch = 40;
  __shared__ alignas(16) __nv_bfloat16 as[2][kTile][kPitch], bs[2][kTile][kPitch];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  auto load = [&](int stage, int k0) {
    const int r = thread / 4, part = thread % 4 * 8;
    __pipeline_memcpy_async(&as[stage][r][part], a + (row0 + r) * k + k0 + part, 16);
    __pipeline_memcpy_async(&bs[stage][r][part], b + (k0 + r) * n + col0 + part, 16);
    __pipeline_commit();
  };
  float sum[2][4] = {};
  const int wr = warp / 2 * 16, wc = warp % 2 * 16;
  load(0, 0);
  for (int k0 = 0, stage = 0; k0 < k; k0 += kTile, stage ^= 1) {
    if (k0 + kTile < k) {
      load(stage ^ 1, k0 + kTile);
      if (!forget) __pipeline_wait_prior(1);
    } else {
      if (!forget) __pipeline_wait_prior(0);
    }
    __syncthreads();
    for (int kk = 0; kk < kTile; kk += 16) {
      unsigned fa[4], fb[4];
      const auto at = static_cast<unsigned>(
          __cvta_generic_to_shared(&as[stage][wr + lane % 16][kk + lane / 16 * 8]));
      const auto bt = static_cast<unsigned>(
          __cvta_generic_to_shared(&bs[stage][kk + lane % 16][wc + lane / 16 * 8]));
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                   : "r"(at)
                   : "memory");
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                   : "r"(bt)
                   : "memory");
      for (int j = 0; j < 2; ++j) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
            : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * j]), "r"(fb[2 * j + 1]));
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 2; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int r = row0 + wr + lane / 4 + i / 2 * 8, col = col0 + wc + j * 8 + lane % 4 * 2 + i % 2;
      c[r * n + col] = sum[j][i];
    }
  }
}
