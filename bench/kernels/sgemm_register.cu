// c = a b for square n x n matrices: 128x128 tiles of c, depth 8, 8x8 results in the registers of
// each of 256 threads; n is a multiple of 128. SPDX-License-Identifier: Apache-2.0
constexpr int kTile = 128;
constexpr int kDepth = 8;
constexpr int kEach = 8;

extern "C" __global__ void __launch_bounds__(256)
    sgemm_register(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kDepth][kTile];  // transposed
  __shared__ float b_tile[kDepth][kTile];
  const int tid = threadIdx.x;
  const int row0 = blockIdx.y * kTile;
  const int col0 = blockIdx.x * kTile;
  const int thread_row = tid / 16 * kEach;
  const int thread_col = tid % 16 * kEach;
  float sum[kEach][kEach] = {};
  for (int k = 0; k < n; k += kDepth) {
    const int a_row = tid / 2;
    const int a_col = tid % 2 * 4;
    const float4 a_part = *reinterpret_cast<const float4*>(&a[(row0 + a_row) * n + k + a_col]);
    a_tile[a_col][a_row] = a_part.x;
    a_tile[a_col + 1][a_row] = a_part.y;
    a_tile[a_col + 2][a_row] = a_part.z;
    a_tile[a_col + 3][a_row] = a_part.w;
    const int b_row = tid / 32;
    const int b_col = tid % 32 * 4;
    *reinterpret_cast<float4*>(&b_tile[b_row][b_col]) =
        *reinterpret_cast<const float4*>(&b[(k + b_row) * n + col0 + b_col]);
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      float x[kEach];
      float y[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) x[i] = a_tile[d][thread_row + i];
#pragma unroll
      for (int j = 0; j < kEach; ++j) y[j] = b_tile[d][thread_col + j];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sum[i][j] += x[i] * y[j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      c[(row0 + thread_row + i) * n + col0 + thread_col + j] = sum[i][j];
  }
}
