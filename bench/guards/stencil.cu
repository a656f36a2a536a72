// variants: one_if one_ternary one_clamp four_if four_clamp
// A cross of five points; points outside are zero. A thread computes one row or four.
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kRows = 500, kColumns = 700;
constexpr RankInput kInputs[] = {{int64_t{kRows} * kColumns, 0}};
constexpr int64_t kOutput = int64_t{kRows} * kColumns;

enum Guard { kIf, kTernary, kClamped };

template <Guard kGuard>
__device__ __forceinline__ float Load(const float* x, int row, int column, int rows, int columns) {
  const bool ok = row >= 0 && row < rows && column >= 0 && column < columns;
  if (kGuard == kTernary) return ok ? x[row * columns + column] : 0;
  if (kGuard == kClamped) {
    const float value = x[min(max(row, 0), rows - 1) * columns + min(max(column, 0), columns - 1)];
    return ok ? value : 0;
  }
  float value = 0;
  if (ok) value = x[row * columns + column];
  return value;
}

template <Guard kGuard, int kEach>
__global__ void Cross(const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  const int column = blockIdx.x * 32 + threadIdx.x;
  const int first = (blockIdx.y * 4 + threadIdx.y) * kEach;
  if (column >= columns || first >= rows) return;
  float sum[kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int row = first + j;
    sum[j] = Load<kGuard>(x, row, column, rows, columns) +
             Load<kGuard>(x, row - 1, column, rows, columns) +
             Load<kGuard>(x, row + 1, column, rows, columns) +
             Load<kGuard>(x, row, column - 1, rows, columns) +
             Load<kGuard>(x, row, column + 1, rows, columns);
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) y[(first + j) * columns + column] = sum[j] / 5;
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  const int wide = CeilDiv(kColumns, 32);
  const dim3 one(wide, kRows / 4), four(wide, CeilDiv(kRows, 16)), block(32, 4);
  if (RANK_VARIANT == 0) Cross<kIf, 1><<<one, block, 0, stream>>>(x, y, kRows, kColumns);
  if (RANK_VARIANT == 1) Cross<kTernary, 1><<<one, block, 0, stream>>>(x, y, kRows, kColumns);
  if (RANK_VARIANT == 2) Cross<kClamped, 1><<<one, block, 0, stream>>>(x, y, kRows, kColumns);
  if (RANK_VARIANT == 3) Cross<kIf, 4><<<four, block, 0, stream>>>(x, y, kRows, kColumns);
  if (RANK_VARIANT == 4) Cross<kClamped, 4><<<four, block, 0, stream>>>(x, y, kRows, kColumns);
}

RANK_ONE_INPUT({kRows, kColumns})
